"""Sentence embeddings trained by contrast (Reimers and Gurevych 2019).

task.py    the task: cosine and in-batch losses, correlation with gold scores
rows.py    scored pairs, positive pairs and single texts as packed examples
rating.py  main metric by row
report.py  report blocks
spec.py    settings
"""
