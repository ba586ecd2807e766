"""Text classification, single-label (softmax) and multi-label (sigmoid) (Devlin et al. 2019, section 4.1).

task.py      the task: labels, loss, class weights, focal loss, resampling
answers.py   logits to predictions: probabilities, thresholds, metrics
labels.py    label parsing, order and weights
rating.py    main metric by row
report.py    report blocks
spec.py      settings
"""
