"""Evaluation shared by the tasks.

metrics.py        accuracy, F1, correlations, calibration error
calibration.py    temperature scaling
abstention.py     risk-coverage curves, selective prediction
thresholds.py     decision thresholds and the rows they were tuned on
rare*.py          minority classes: metrics, data splits, bootstrap intervals
significance.py   paired bootstrap, permutation test, McNemar's test
compare.py        two models on the same rows; rating.py: their metrics by row
ensemble.py       averaged predictions
errors.py         rows with the largest loss
scoring.py        reads labeled rows for scoring; unscored.py: why a model cannot be scored on them
report.py         report of `maskwright evaluate`; trust_report.py: its calibration section
submission.py     GLUE submission files
published/        published results
"""
