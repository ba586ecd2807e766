"""Text classification, single-label (softmax) and multi-label (sigmoid) (Devlin et al. 2019, section 4.1).

task.py      the task: labels, class weights, loss, predictions, thresholds, metrics
report.py    report blocks
spec.py      settings
"""
