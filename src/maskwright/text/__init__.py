"""Tokenizers and their trainers; readers of corpora and labeled files; sentence and word segmentation."""
