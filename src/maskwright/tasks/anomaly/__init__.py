"""Anomaly detection: an autoencoder on frozen sentence features learns the normal class.

task.py     the task: features, reconstruction error, threshold, metrics
rating.py   main metric by row
report.py   report blocks
spec.py     settings and defaults
"""
