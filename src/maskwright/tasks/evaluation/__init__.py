"""Evaluation shared by the tasks.

metrics.py        accuracy, F1, correlations, calibration error
calibration.py    temperature scaling, selective prediction
rare.py           minority classes: thresholds, metrics with intervals, data splits
compare.py        two models on the same rows, with significance tests; rating.py: their metrics by row
ensemble.py       averaged predictions
errors.py         rows with the largest loss
scoring.py        reads labeled rows for scoring; unscored.py: why a model cannot be scored on them
report.py         report of `maskwright evaluate`
submission.py     GLUE submission files
published/        published results
"""
