"""The report of `maskwright evaluate --report`: scores, calibration, and worst errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...report import (
    Block,
    Command,
    Confusion,
    Facts,
    Figure,
    KeyFigures,
    NextSteps,
    Paragraph,
    Report,
    RunMetadata,
    Section,
    Table,
    write_report,
)
from ...report.charts import Chart, Curves, Histogram, Series
from ...report.numbers import percent
from ..base import Evaluation, Task
from ..examples import Examples
from ..report import WORST, wrong_predictions
from ..specs import readers_of
from .calibration import (
    Decisions,
    RiskCoverage,
    Temperature,
    calibration_errors,
    out_of_fold_probabilities,
    probabilities,
    risk_coverage,
)
from .scoring import worst_errors

BINS = 15
RISKS = (0.01, 0.02, 0.05, 0.1)
_POINTS = 400  # per curve


def trust_blocks(decisions: Decisions, temperature: Temperature | None, *, abstains: bool = True) -> list[Block]:
    """Reliability diagram, confidence histogram, risk-coverage curve. Empty if there are no decisions.

    abstains: whether `predict --min-confidence` supports the task.
    """
    if not len(decisions):
        return []
    shares = out_of_fold_probabilities(decisions, temperature)
    raw = probabilities(decisions.logits)
    lines = [_reliability("as trained" if temperature else "this model", decisions.gold, raw)]
    errors, facts = calibration_errors(decisions.gold, raw), dict[str, str | tuple[str, str]]()
    if temperature is None:
        facts["calibration error"] = f"{errors['ece']:.4f}", "expected, 15 bins of equal width"
        facts["with bins of equal size"] = f"{errors['ece_equal_mass']:.4f}"
    else:
        lines.append(_reliability("calibrated", decisions.gold, shares))
        after = calibration_errors(decisions.gold, shares)
        is_own = not temperature.seen.isdisjoint(decisions.keys)
        how = "each half at the temperature of the other half" if is_own else "on rows that it was not fitted on"
        facts["temperature"] = f"{temperature.value:.3f}"
        facts["calibration error as trained"] = f"{errors['ece']:.4f}"
        facts["calibration error with it"] = f"{after['ece']:.4f}", how
        facts["with bins of equal size"] = f"{errors['ece_equal_mass']:.4f}, then {after['ece_equal_mass']:.4f}"
    lines.append(Series("perfect", [0.0, 1.0], [0.0, 1.0], smooth=False))
    note = "Above the diagonal the model is underconfident, below it overconfident."
    reliability = Chart("Accuracy by confidence", lines, x_label="confidence", unit="percent", note=note)
    curve = curve_of(decisions, temperature)
    chosen = np.unique(np.linspace(0, len(curve.coverage) - 1, _POINTS).round().astype(int))
    line = Series("wrong predictions", curve.coverage[chosen].tolist(), curve.risk[chosen].tolist(), smooth=False)
    note = f"Area under the curve (AURC) {curve.aurc:.4f}; {curve.best_aurc:.4f} for an ideal ranking."
    risks = Chart("Risk by coverage", [line], x_label="coverage", unit="percent", note=note)
    counts, edges = np.histogram(shares.max(axis=1), bins=BINS, range=(0.0, 1.0))
    confidences = Histogram(
        edges.tolist(), counts.tolist(), title="Confidence", x_label="confidence", y_label="decisions"
    )
    rows = []
    for risk in RISKS:
        found = curve.at_risk(risk)
        least = found["min_confidence"]
        rows.append((percent(risk), percent(found["coverage"] or 0.0), "–" if least is None else f"{least:.4f}"))
    table = Table(
        ("maximum risk", "coverage", "--min-confidence" if abstains else "minimum confidence"),
        rows,
        title="Selective prediction",
        note="Thresholds selected on these rows; expect a slightly higher risk on other rows.",
    )
    curves = Curves([reliability, risks], title="")
    return [Section("Trust", [Facts(facts, title="Calibration"), curves, confidences, table])]


def curve_of(decisions: Decisions, temperature: Temperature | None) -> RiskCoverage:
    """The risk-coverage curve over the calibrated probabilities of the model."""
    shares = probabilities(decisions.logits, 1.0 if temperature is None else temperature.value)
    answered = decisions.answered
    return risk_coverage(shares[np.arange(len(shares)), answered], answered == decisions.gold)


def _reliability(name: str, gold: np.ndarray, shares: np.ndarray) -> Series:
    """Mean confidence and accuracy of each non-empty bin."""
    confidence, right = shares.max(axis=1), shares.argmax(axis=1) == gold
    place = np.minimum((confidence * BINS).astype(int), BINS - 1)
    counts = np.bincount(place, minlength=BINS)
    held = counts > 0
    x, y = (np.bincount(place, weights=own, minlength=BINS)[held] / counts[held] for own in (confidence, right))
    return Series(name, x.tolist(), y.tolist(), smooth=False)


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

    model: as named on the command line; command: the command line; against: comparison with another model.
    """
    metric = task.main_metric
    file = Path(str(examples.rows[0].file)).name
    headline = (
        f"{metric.replace('_', ' ').capitalize()} {evaluation.metrics[metric]:.3f} on {examples.num_rows:,} rows."
    )
    figures = [Figure(name.replace("_", " "), value) for name, value in evaluation.metrics.items()]
    blocks: list[Block] = [KeyFigures(figures[:8]), RunMetadata(command)]
    if against is not None:
        rows = [(name, value, against["other"].get(name)) for name, value in against["own"].items()]
        head = ("metric", "A, this model", f"B, {against['model']}")
        blocks += [Table(head, rows, title="Comparison with another model")]
        blocks += [Paragraph(against["comparison"]["sentence"])]
    decisions = task.decisions(evaluation.logits, examples)
    if decisions is not None:
        blocks += trust_blocks(decisions, task.temperature, abstains=task.can_abstain)
    confusion = None if examples.targets is None else task.confusion(evaluation.logits, examples.targets)
    if confusion is not None:
        blocks.append(Confusion(task.labels, confusion))
    errors = worst_errors(task, examples, evaluation.logits, WORST)
    worst = wrong_predictions(errors, _answer, lambda own: _words(own["gold"]), probability="score")
    command, values = task.usage
    step = Command.suggest("use it", command, model=model, **values)
    if task.temperature is None and task.labels:
        rows_file = readers_of(task.name)[0].example_file.replace("test", "dev")
        step = Command.suggest("calibrate the probabilities", "evaluate", model=model, file=rows_file, calibrate=True)
    elif task.can_abstain:
        step = Command.suggest("abstain at low confidence", command, model=model, min_confidence=0.9, **values)
    write_report(path, Report(f"{task.name} on {file}", headline, blocks=[*blocks, worst, NextSteps([step])]))


def _answer(error: Mapping[str, Any]) -> str:
    return _words(next((error[name] for name in ("label", "labels", "tags", "answer", "score") if name in error), ""))


def _words(value: Any) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return " ".join(map(str, value)) or "none"
    return f"{value:.2f}" if isinstance(value, float) else str(value)
