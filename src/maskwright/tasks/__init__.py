"""Fine-tuning tasks: examples, model head, loss, decoding and metrics, one file per task.

base.py       the interface of a task                 examples.py  tokenized rows and packed batches
specs.py      settings, defaults and readers; no torch  windows.py   long texts as overlapping windows
sequence.py   tasks with one prediction per text      split.py     held-out rows
contents.py   the reader of a file for a task         report.py    report blocks
"""
