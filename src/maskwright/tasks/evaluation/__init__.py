"""Evaluation shared by the tasks: metrics, calibration, rare classes, comparison of models, published results."""
