"""Floor 6: what can be known before work begins: of data (and of its labels, given a model), of a machine, of a folder.

findings.py  what is wrong, how bad, where       prints.py     short names of rows, for any number of them
rows.py      files of any task as one stream     repeats.py    duplicates, leaks, conflicts, near duplicates
texts.py     characters, lengths                 labels.py, tags.py, questions.py, choices.py   by task
clinic.py    the examination                     fix.py, report.py   a cleaned copy, a page
mislabelled.py  rows whose label a model doubts
"""
