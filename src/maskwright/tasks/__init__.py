"""Fine-tuning tasks: examples, model head, loss, decoding and metrics.

One package per task, plus two shared ones: `rows` turns labeled rows into packed examples, `evaluation` scores,
calibrates and compares predictions. Nothing outside this package asks which task it is.

base.py       the interface of a task          NAME/task.py     the `Task` subclass
spec.py       what is known before the import  NAME/spec.py     settings, defaults and readers of the task; no torch
report.py     default report blocks            NAME/report.py   report blocks of the task
data.py       data of a run, for baseline and report
of_model.py   the task of a loaded model
"""
