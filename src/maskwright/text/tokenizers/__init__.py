"""Tokenizers: training, file formats, encoding, explanations."""
