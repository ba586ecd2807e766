"""What a model is scored on: labeled rows that fit it, the predictions of several models averaged, the worst errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from ...core.errors import InputError
from ...core.progress import warn
from ...text.annotations.reader import CLASSES, has_annotations
from ...text.formats.files import file_format
from ...text.readers.tables import FoundRows, Row, find_reader, label_column, read_texts
from ..specs import fits, readers_of, task_for

if TYPE_CHECKING:
    from ..base import Task
    from ..examples import Examples

TEXTS = task_for("texts")  # suggested for labeled texts


# -- rows that fit a model ---------------------------------------------------------------------------------------------


def read_to_score(
    task: Task,
    source: Path | str | tuple[Path | str, Path | str],
    model: str,
    *,
    columns: Mapping[str, str] | None = None,
    skip_bad_rows: bool = False,
) -> FoundRows:
    """Reads the rows of a file to score `task` on.

    source: a file, or two line-aligned ones; model: name of the model, for messages. Raises InputError, with the
    command to use instead, for a file of another format or with labels that the model never predicts; and whatever
    `Task.read_known` raises.
    """
    file = Path(source[0] if isinstance(source, tuple) else source)
    check_form(file, task.name, model, columns)
    rows: list[Row] = []
    try:
        table = task.read_known(
            source,  # type: ignore[arg-type]  # two files of a translation
            columns=columns or None,
            skip_bad_rows=skip_bad_rows,
        )
    except InputError:
        if any(reader.is_text for reader in readers_of(task.name)):
            with suppress(InputError):
                if file_format(file, default="txt") != "txt":
                    rows = read_texts(file, columns=columns, skip_bad_rows=True).rows
            check_labels(task, rows, file, model)
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
