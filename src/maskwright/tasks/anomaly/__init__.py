"""Anomaly detection: an autoencoder on frozen sentence features learns the normal class.

task.py     the task: features, reconstruction error, threshold, metrics
report.py   report blocks
spec.py     settings and defaults
"""
