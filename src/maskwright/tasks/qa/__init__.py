"""Extractive question answering (SQuAD; Devlin et al. 2019, sections 4.2 and 4.3).

task.py        the task: span loss, predictions, scores, no-answer threshold
windows.py     question and context as overlapping windows; start and end logits to answer spans
trace.py       an answer span shown token by token
"""
