"""Readers of corpora and labeled files.

Each labeled-file format is a `Reader` and a line in `core.registry`, kind `reader`.
"""
