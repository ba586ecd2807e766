"""From labeled rows to packed examples: code that several tasks share.

examples.py         tokenized rows, packed batches, and what a model computes for them
long_examples.py    long texts: truncation, or overlapping windows and their pooling
sequence.py         base class of tasks with one prediction per text
targets.py          base class of tasks that generate a target text
split.py            held-out rows
relevant.py         the class of a classifier of pairs that means relevant
special_tokens.py   start, delimiter and extract tokens for causal models
imbalance.py        class imbalance and resampling
settings.py         settings that several tasks have
contents.py         the reader of a file for a task; detects files that belong to another task
"""
