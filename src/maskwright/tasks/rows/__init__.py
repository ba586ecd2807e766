"""From labeled rows to packed examples: code that several tasks share.

examples.py         tokenized rows, packed batches
long_examples.py    long texts as overlapping windows
long_texts.py       settings for long texts: truncation or windows, pooling
sequence.py         base class of tasks with one prediction per text
targets.py          base class of tasks that generate a target text; target_report.py: their report blocks
special_tokens.py   start, delimiter and extract tokens for causal models
imbalance.py        class imbalance and resampling
settings.py         settings that several tasks have
contents.py         the reader of a file for a task; detects files that belong to another task
"""
