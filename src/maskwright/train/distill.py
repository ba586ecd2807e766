"""Distillation, the whole path: teacher, student, training, comparison, model folder, report (Sanh et al. 2019).

The same command goes on wherever it was cut off, as pre-training and fine-tuning do.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ..core.config import to_dict
from ..core.progress import note
from ..hub.download import find_folder
from ..hub.folders import load_model, save_model
from ..inference.ready import compute_in, require_head, tokenizer_of
from ..models.device import resolve_device, resolve_precision
from ..models.model import Model
from .distill_config import DistillConfig
from .distill_measure import Measured, measure, pruned_rows
from .distill_report import write_distill_report
from .distill_sides import RowsSide, Side, TextSide
from .loop import train
from .run import RunFolder, RunResult, open_run


@dataclass(frozen=True)
class DistillResult(RunResult):
    """Where a run's results are, and its figures.

    metric: the score that counts; score_kept: the student's as a share of the teacher's (None where that is 0); rows:
    teacher, student and what pruning leaves, measured on the same held-out data.
    """

    metric: str
    score_kept: float | None
    rows: tuple[Measured, ...]
    already_finished: bool = False


def distill(config: DistillConfig, *, restart: bool = False) -> DistillResult:
    """Run `config`, or go on with it where it was cut off; a finished run is not run again.

    Raises RunError when the folder holds another run or the teacher has changed, ModelFolderError for a teacher that
    does not fit the data, InputError for a student that does not fit the teacher, Interrupted after a signal.
    """
    device = resolve_device(config.device)
    config = config.resolved(str(device), resolve_precision(config.precision, device, training=True))
    with open_run(config.output, to_dict(config), restart=restart) as run:
        if run.result is not None:
            return _result(run, run.result, already_finished=True)
        teacher = open_teacher(config).to(device)
        side: Side = (TextSide if config.corpus else RowsSide)(config, run, device, teacher)
        student = side.student
        student.model.to(device)
        note(
            f"The student has {student.model.num_parameters:,} of the teacher's {teacher.num_parameters:,} parameters "
            f"and begins as its layers {', '.join(map(str, student.layers))}."
        )
        job = side.job()
        train(job, side.loop_settings(), run, name="distillation")
        result = conclude(config, run, side, job)
        run.finish(result)
        return _result(run, result)


def open_teacher(config: DistillConfig) -> Model:
    """The teacher, out of training mode, computing in the run's precision. Raises ModelFolderError."""
    teacher, report = load_model(find_folder(config.teacher)[0])
    report.tell(config.teacher)
    heads = ("mlm", "pretraining") if config.corpus else ("classification", "regression")
    require_head(teacher, heads, config.teacher)
    tokenizer_of(teacher)
    compute_in(teacher, config.precision)
    return teacher.requires_grad_(False)


def conclude(config: DistillConfig, run: RunFolder, side: Any, job: Any) -> dict[str, Any]:
    """Compare student and teacher, write the student's folder and the report; returns the run's result."""
    model, exam = side.final(job), side.exam(job)
    fewer = config.prune_layers
    if fewer is None:
        fewer = side.teacher.config.num_hidden_layers - model.config.num_hidden_layers
    rows = [measure("teacher", side.teacher, exam), measure("student", model, exam)]
    rows += pruned_rows(side.teacher, exam, config.prune_heads, fewer)
    best = rows[0].scores[exam.metric]
    result = {
        "metric": exam.metric,
        "score_kept": rows[1].scores[exam.metric] / best if best > 0 else None,
        "rows": [asdict(row) for row in rows],
        "layers": list(side.student.layers),
        "weights": {"copied": len(side.student.copied), "new": list(side.student.new)},
    }
    facts = {**side.facts(), "training": {**run.recipe, **{key: result[key] for key in ("score_kept", "layers")}}}
    save_model(model, run.path / "model", facts=facts, replace=True)
    write_distill_report(run, rows, result, side.student)
    return result


def _result(run: RunFolder, result: dict[str, Any], already_finished: bool = False) -> DistillResult:
    rows = tuple(Measured(**row) for row in result["rows"])
    return DistillResult(run.path, result["metric"], result["score_kept"], rows, already_finished)
