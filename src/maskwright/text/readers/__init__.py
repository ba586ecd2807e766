"""Readers of corpora and labeled files."""
