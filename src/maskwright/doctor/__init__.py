"""Checks of training data, labels, model folders and the installation.

findings.py  findings, severities, locations    fingerprints.py  row hashes and MinHash bands
rows.py      rows of any task as one stream     repeats.py       duplicates, leaks, conflicts, near duplicates
texts.py     characters, lengths                labels.py, tags.py, questions.py, choices.py   checks per task
clinic.py    data check                         fix.py, report.py   cleaned copy, HTML report
machine.py, model.py   installation and model folder checks
mislabeled.py          label errors (confident learning)
"""
