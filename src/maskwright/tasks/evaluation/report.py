"""The report of `maskwright evaluate --report`: scores, calibration, and worst errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from ...report import (
    Block,
    Command,
    Confusion,
    Figure,
    KeyFigures,
    NextSteps,
    Paragraph,
    Report,
    RunMetadata,
    Table,
    WorstError,
    WorstErrors,
    write_report,
)
from ..base import Evaluation, Task
from ..rows.contents import readers_of
from ..rows.examples import Examples
from .errors import worst_errors
from .trust_report import trust_blocks

WORST = 12


def write_evaluation(
    path: Path,
    task: Task,
    model: str,
    examples: Examples,
    evaluation: Evaluation,
    command: str,
    against: Mapping[str, Any] | None,
) -> None:
    """Writes one self-contained HTML page.

    Args:
        model: the model, as named on the command line.
        command: the command line.
        against: comparison with another model.
    """
    metric = task.main_metric
    file = Path(str(examples.rows[0].file)).name
    headline = (
        f"{metric.replace('_', ' ').capitalize()} {evaluation.metrics[metric]:.3f} on {examples.num_rows:,} rows."
    )
    figures = [Figure(name.replace("_", " "), value) for name, value in evaluation.metrics.items()]
    blocks: list[Block] = [KeyFigures(figures[:8]), RunMetadata(command), *_against(against)]
    decisions = task.decisions(evaluation.logits, examples)
    if decisions is not None:
        blocks += trust_blocks(decisions, task.temperature, abstains=task.can_abstain)
    confusion = None if examples.targets is None else task.confusion(evaluation.logits, examples.targets)
    if confusion is not None:
        blocks.append(Confusion(task.labels, confusion))
    blocks += [_worst(task, examples, evaluation.logits), NextSteps(_next(task, model))]
    write_report(path, Report(f"{task.name} on {file}", headline, blocks=blocks))


def _against(found: Mapping[str, Any] | None) -> list[Block]:
    if found is None:
        return []
    rows = [(name, value, found["other"].get(name)) for name, value in found["own"].items()]
    return [
        Table(("metric", "A, this model", f"B, {found['model']}"), rows, title="Comparison with another model"),
        Paragraph(found["comparison"]["sentence"]),
    ]


def _worst(task: Task, examples: Examples, logits: Tensor) -> WorstErrors:
    errors = worst_errors(task, examples, logits, WORST)
    return WorstErrors(
        [
            WorstError(
                error["text"], _words(error["gold"]), _answer(error), error.get("score"), loss=error["loss"],
                text_pair=error["text_pair"], line=error["line"],
            )
            for error in errors
        ]
    )  # fmt: skip


def _answer(error: Mapping[str, Any]) -> str:
    return _words(next((error[name] for name in ("label", "labels", "tags", "answer", "score") if name in error), ""))


def _words(value: Any) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return " ".join(map(str, value)) or "none"
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def _next(task: Task, model: str) -> list[Command]:
    if task.temperature is None and task.labels:
        rows = readers_of(task.name)[0].example_file.replace("test", "dev")
        return [Command.suggest("calibrate the probabilities", "calibrate", model=model, file=rows)]
    command, values = task.usage
    if task.can_abstain:
        return [Command.suggest("abstain at low confidence", command, model=model, min_confidence=0.9, **values)]
    return [Command.suggest("use it", command, model=model, **values)]
