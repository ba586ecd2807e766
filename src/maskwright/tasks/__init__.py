"""Fine-tuning tasks: examples, model head, loss, decoding and metrics.

One package per task (`task.py` is the `Task` subclass, `report.py` its report blocks), plus two shared ones: `rows`
turns labeled rows into packed examples, `evaluation` scores, calibrates and compares predictions.
"""
