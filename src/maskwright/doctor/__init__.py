"""Checks of training data, labels, model folders and the installation.

clinic.py    data check                         checks.py        texts, labels, tags, questions, choices
rows.py      rows of any task as one stream, findings with severity and locations
repeats.py   duplicates, leaks, conflicts       fix.py           cleaned copies, changed labels
machine.py, model.py   installation and model folder checks
mislabeled.py          label errors (confident learning)
"""
