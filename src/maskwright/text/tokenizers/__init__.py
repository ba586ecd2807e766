"""Tokenizers: training, file formats, encoding, explanations.

Each kind is a trainer in `trainers/` and a line in `core.registry`, kind `tokenizer`.
"""
