"""The task of a loaded model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..core import registry
from ..core.errors import ConfigError, InputError, ModelFolderError
from ..models.model import Model
from .base import Task


def task_of_model(model: Model, facts: Mapping[str, Any] | None = None) -> Task:
    """Returns the task of a loaded model: from its maskwright.json, otherwise from its head.

    Raises InputError if the model has no task head, ModelFolderError if maskwright.json does not match the model.
    """
    task = _task_of_model(model, facts)
    task.bind(model)
    return task


def _task_of_model(model: Model, facts: Mapping[str, Any] | None) -> Task:
    if facts and facts.get("task") in registry.names("task"):
        task = task_from_json(facts)
        if task.num_labels != model.num_labels:
            raise ModelFolderError(
                f"maskwright.json has {task.num_labels} outputs and the model has {model.num_labels}: "
                "they do not belong together."
            )
        return task
    if model.head_name is None and model.sentence is not None:
        return task_from_json({"task": "similarity"})
    if model.head_name in ("tagging", "tagging-crf"):
        has_crf = model.head_name == "tagging-crf"
        return task_from_json({"task": "tagging", "labels": list(model.labels), "crf": has_crf})
    if model.head_name in ("qa", "choice", "anomaly", "seq2seq"):
        return task_from_json({"task": "translation" if model.head_name == "seq2seq" else model.head_name})
    if model.head_name not in ("classification", "regression"):
        raise InputError("This model has no task head: fine-tune it first.")
    if model.head_name == "regression" or model.problem_type == "regression":
        return task_from_json({"task": "regression"})
    is_multi = model.problem_type == "multi_label_classification"
    own = {"task": "classification", "labels": list(model.labels), "multi_label": is_multi}
    return task_from_json({**own, "relevant": (facts or {}).get("relevant")})


def task_from_json(facts: Mapping[str, Any]) -> Task:
    """Builds the task described by a maskwright.json: {"task": name, ...}.

    Raises ModelFolderError for an unknown task or invalid values.
    """
    name = facts.get("task")
    try:
        cls = registry.resolve("task", str(name))
    except ConfigError as error:
        raise ModelFolderError(f"The model's maskwright.json has an unknown task: {error}") from None
    task: Task = cls.from_json(facts)
    return task
