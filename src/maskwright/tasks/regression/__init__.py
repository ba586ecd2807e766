"""Regression: one number for each text or pair, by mean squared error.

task.py     the task: targets, loss, correlations
rating.py   main metric by row
report.py   report blocks
spec.py     settings
"""
