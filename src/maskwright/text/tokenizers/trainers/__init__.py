"""Tokenizer trainers, one module per kind; every result is a standard `tokenizer.json`.

`core.registry` lists them. Each takes an iterator of texts and a vocabulary size and returns a `Trained`.
"""
