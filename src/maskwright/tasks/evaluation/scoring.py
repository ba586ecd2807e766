"""What a model is scored on: labeled rows that fit it, the predictions of several models averaged, the worst errors."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from ...core.errors import InputError
from ...core.progress import warn
from ...text.annotations.reader import CLASSES, has_annotations
from ...text.formats.cells import number_error
from ...text.formats.files import file_format
from ...text.readers.tables import Row, find_reader, label_column, read_texts
from ..specs import fits, readers_of, task_for

if TYPE_CHECKING:
    from ..base import AnyTable, Task
    from ..examples import Examples

TEXTS = task_for("texts")  # suggested for labeled texts
MOST_NAMED = 6  # labels listed in a message
_SUM_TOLERANCE = 1e-3  # of float16 probabilities over many labels


# -- rows that fit a model ---------------------------------------------------------------------------------------------


class Unscored(NamedTuple):
    """Why a model cannot be scored on rows. reason: verb phrase about their file; task: task that fits the rows, None
    for rows without labels.
    """

    reason: str
    task: str | None

    @classmethod
    def of_labels(cls, labels: Collection[str], reason: str = "contains") -> Unscored:
        """The reason for labels that the model never predicts. reason: verb before the labels."""
        are_numbers = all(number_error(label) is None for label in labels)
        has_fractions = are_numbers and any(not float(label).is_integer() for label in labels)
        task = "regression" if has_fractions else "classification"
        return cls(f"{reason} the labels {named(sorted(labels))}", task)


def named(labels: Sequence[str]) -> str:
    """The first MOST_NAMED labels as a comma-separated list."""
    return ", ".join(label[:40] for label in labels[:MOST_NAMED]) + (", ..." if len(labels) > MOST_NAMED else "")


def read_to_score(
    task: Task,
    source: Path | str | tuple[Path | str, Path | str],
    model: str,
    *,
    columns: Mapping[str, str] | None = None,
    skip_bad_rows: bool = False,
) -> AnyTable:
    """Reads the rows of a file to score `task` on.

    source: a file, or two line-aligned ones; model: name of the model, for messages. Raises InputError, with the
    command to use instead, for a file of another format or with labels that the model never predicts; and whatever
    `Task.read_known` raises.
    """
    file = Path(source[0] if isinstance(source, tuple) else source)
    check_form(file, task.name, model, columns)
    known: Any = source
    try:
        table = task.read_known(known, columns=columns or None, skip_bad_rows=skip_bad_rows)
    except InputError:
        if any(reader.is_text for reader in readers_of(task.name)):
            check_labels(task, _rows_with_any_label(file, columns), file, model)
        raise
    scored = [row for row in table.rows if task.why_unscored([row]) is None] if skip_bad_rows else []
    check_labels(task, scored or table.rows, file, model)  # rows with unknown labels are among those to skip
    return table


def check_text(file: Path, model: str) -> None:
    """Checks a text file for scoring a pre-trained model; warns about a label column, which is not scored.

    Raises InputError if the file contains labeled rows of a task.
    """
    check_form(file, "text", model)
    kind, column = file_format(file, default="txt"), label_column(file)
    if kind == "tsv" and file.is_file():
        raise InputError(
            f"{file} contains labeled rows, and {model} is a pre-trained model, which is scored on text. "
            f"{training_command(TEXTS, model)}"
        )
    if column is not None:
        warn(
            f"The column '{column}' of {file} is not scored: {model} is a pre-trained model. "
            f"{training_command(TEXTS, model)}"
        )


def check_form(file: Path, task: str, model: str, columns: Mapping[str, str] | None = None) -> None:
    """Raises InputError if the file has the format of a task other than `task`."""
    found = find_reader(file, columns, lambda reader: fits(task, reader))
    if found is not None and not found.is_text and not fits(task, found):
        raise InputError(
            f"{file} contains {found.contains}, and {model} is a model for {task}. "
            f"{training_command(task_for(found.name), model)}"
        )
    reads_texts = any(reader.is_text for reader in readers_of(task))
    has_labels = label_column(file) is not None or has_annotations(file, CLASSES)
    if not reads_texts and (found is None or found.is_text) and has_labels:
        raise InputError(
            f"{file} contains labeled texts, and {model} is a model for {task}. {training_command(TEXTS, model)}"
        )


def check_labels(task: Task, rows: Sequence[Any], file: Path, model: str) -> None:
    """Raises InputError if the task predicts none of the labels of the rows."""
    fault = task.why_unscored(rows) if rows else None
    if fault is None:
        return
    fitting = f"To embed the texts: maskwright embed {model} --input {file} --output vectors.npy"
    if fault.task is not None:
        fitting = training_command(fault.task, model)
    raise InputError(f"{file} {fault.reason}, but {model} predicts {task.predicts}. {fitting}")


def _rows_with_any_label(file: Path, columns: Mapping[str, str] | None) -> list[Row]:
    """The rows of a table with any labels; none if it cannot be read."""
    try:
        if file_format(file, default="txt") == "txt":
            return []
        return read_texts(file, columns=columns, skip_bad_rows=True).rows
    except InputError:
        return []


def training_command(task: str, model: str) -> str:
    """A sentence with the command that trains a model for such rows."""
    return f"To train one for such rows: maskwright finetune {task} --model {model} --train TRAIN-FILE -o runs/{task}"


# -- errors and ensembles ----------------------------------------------------------------------------------------------


def worst_errors(task: Task, examples: Examples, logits: Tensor, limit: int = 20) -> list[dict[str, Any]]:
    """Wrong predictions with the largest loss, worst first.

    Each is {"line", "text", "text_pair", "gold", "loss"} and the fields of the prediction. For regression it lists the
    rows with the largest squared error.
    """
    if examples.targets is None:
        raise InputError("Errors can be listed for labeled rows only.")
    losses = task.losses(logits, examples)
    answers = task.answers(logits, examples)
    found: list[dict[str, Any]] = []
    for index in losses.argsort(descending=True).tolist():
        if len(found) == limit:
            break
        row, answer = examples.rows[index], answers[index]
        if task.is_right(examples, index, answer):
            continue
        facts = {"line": row.line, "text": row.text, "text_pair": row.text_pair, "gold": row.label}
        found.append({**facts, **answer, "loss": float(losses[index])})
    return found


def mean_scores(members: Sequence[ArrayLike], weights: Sequence[float] | None = None) -> np.ndarray:
    """Weighted mean over models: float64, with the shape of each member.

    members: arrays of the same shape, [rows] or [rows, labels], in the same row order. weights: one non-negative number
    per model, normalized (default: equal). Raises InputError if there are no members, shapes differ, values are not
    finite, or weights are invalid.
    """
    if len(members) == 0:
        raise InputError("An ensemble needs at least one model's predictions.")
    arrays = [np.asarray(member, dtype=np.float64) for member in members]
    for place, array in enumerate(arrays):
        if array.shape != arrays[0].shape:
            raise InputError(
                f"The predictions of model {place} have the shape {array.shape} and those of model 0 "
                f"{arrays[0].shape}: all models must predict the same rows with the same labels."
            )
        if not np.isfinite(array).all():
            raise InputError(f"The predictions of model {place} contain a number that is not finite.")
    return np.tensordot(_shares(weights, len(arrays)), np.stack(arrays), axes=1)


def mean_probabilities(
    members: Sequence[ArrayLike], weights: Sequence[float] | None = None, *, multi_label: bool = False
) -> np.ndarray:
    """Weighted mean of probabilities: float64 [rows, labels].

    members: arrays [rows, labels] of probabilities, not logits; rows sum to 1 unless multi_label. weights: see
    `mean_scores`. Raises InputError like `mean_scores`, and for values that are not probabilities.
    """
    mean = mean_scores(members, weights)
    for place, member in enumerate(members):
        array = np.asarray(member, dtype=np.float64)
        if array.ndim != 2:
            raise InputError(f"The predictions of model {place} have {array.ndim} dimensions; expected [rows, labels].")
        is_share = array.size == 0 or (array.min() >= 0 and array.max() <= 1)
        if not is_share or not (multi_label or np.allclose(array.sum(axis=1), 1, atol=_SUM_TOLERANCE)):
            raise InputError(
                f"The predictions of model {place} are not probabilities; expected numbers from 0 to 1"
                f"{'' if multi_label else ', in rows that sum to 1'}."
            )
    return mean if multi_label else mean / mean.sum(axis=1, keepdims=True)


def _shares(weights: Sequence[float] | None, count: int) -> np.ndarray:
    shares = np.ones(count) if weights is None else np.asarray(weights, dtype=np.float64)
    if shares.shape != (count,):
        raise InputError(f"{count} ensemble weights are needed, one per model, not {shares.size}.")
    if not np.isfinite(shares).all() or (shares < 0).any() or shares.sum() <= 0:
        raise InputError("Ensemble weights must be finite, not negative, and not all 0.")
    return shares / shares.sum()
