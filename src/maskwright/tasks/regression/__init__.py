"""Regression: one number for each text or pair, by mean squared error (`task.py`)."""
