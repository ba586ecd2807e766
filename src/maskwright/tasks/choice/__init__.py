"""Multiple choice (Devlin et al. 2019, section 4.4): a softmax over the scores of (context, choice) pairs.

task.py       the task: loss, predictions, metrics
examples.py   rows as packed sequences, one per choice
rating.py     main metric by row
report.py     report blocks
spec.py       settings
"""
