"""What a page shows of trust: whether a probability is a probability, and what answering only when sure would give."""

from __future__ import annotations

import numpy as np

from ..tasks.abstention import RiskCoverage, risk_coverage
from ..tasks.calibration import Decisions, Temperature, calibration_errors, honest_probabilities, probabilities
from .report import Block, Chart, Curves, Facts, Histogram, Section, Series, Table
from .report.numbers import percent

BINS = 15
RISKS = (0.01, 0.02, 0.05, 0.1)
_POINTS = 400  # of a curve on a page


def trust_blocks(decisions: Decisions, temperature: Temperature | None, *, abstains: bool = True) -> list[Block]:
    """Reliability diagram, confidences, risk by coverage. Nothing where there are no decisions.

    abstains: whether `predict --min-confidence` knows such decisions.
    """
    if not len(decisions):
        return []
    shares = honest_probabilities(decisions, temperature)
    raw = probabilities(decisions.logits)
    lines = [_reliability("as trained" if temperature else "this model", decisions.gold, raw)]
    if temperature is not None:
        lines.append(_reliability("calibrated", decisions.gold, shares))
    lines.append(Series("perfect", [0.0, 1.0], [0.0, 1.0], smooth=False))
    curve = curve_of(decisions, temperature)
    charts = [
        Chart(
            "Share that is right, by confidence", lines, x_label="confidence", unit="percent",
            note="Above the diagonal the model is too modest, below it too sure.",
        ),
        _risk_chart(curve),
    ]  # fmt: skip
    counts, edges = np.histogram(shares.max(axis=1), bins=BINS, range=(0.0, 1.0))
    sure = Histogram(edges.tolist(), counts.tolist(), title="How sure it is", x_label="confidence", y_label="decisions")
    facts = Facts(_facts(decisions, raw, shares, temperature), title="Calibration")
    return [Section("Trust", [facts, Curves(charts, title=""), sure, _risk_table(curve, abstains)])]


def curve_of(decisions: Decisions, temperature: Temperature | None) -> RiskCoverage:
    """The risk-coverage curve by the probabilities that the model gives, so that a confidence on it is one of them."""
    shares = probabilities(decisions.logits, 1.0 if temperature is None else temperature.value)
    answered = decisions.answered
    return risk_coverage(shares[np.arange(len(shares)), answered], answered == decisions.gold)


def _facts(
    decisions: Decisions, raw: np.ndarray, shares: np.ndarray, temperature: Temperature | None
) -> dict[str, str | tuple[str, str]]:
    before = calibration_errors(decisions.gold, raw)
    if temperature is None:
        return {
            "calibration error": (f"{before['ece']:.4f}", "expected, 15 bins of equal width"),
            "with bins of equal size": f"{before['ece_equal_mass']:.4f}",
        }
    after = calibration_errors(decisions.gold, shares)
    own = not temperature.seen.isdisjoint(decisions.keys)
    how = "each half at the temperature of the other half" if own else "on rows that had no part in fitting it"
    return {
        "temperature": f"{temperature.value:.3f}",
        "calibration error as trained": f"{before['ece']:.4f}",
        "calibration error with it": (f"{after['ece']:.4f}", how),
        "with bins of equal size": f"{before['ece_equal_mass']:.4f}, then {after['ece_equal_mass']:.4f}",
    }


def _reliability(name: str, gold: np.ndarray, shares: np.ndarray) -> Series:
    """Mean confidence and share of right ones of each bin that holds any."""
    confidence, right = shares.max(axis=1), shares.argmax(axis=1) == gold
    place = np.minimum((confidence * BINS).astype(int), BINS - 1)
    counts = np.bincount(place, minlength=BINS)
    held = counts > 0
    x = np.bincount(place, weights=confidence, minlength=BINS)[held] / counts[held]
    y = np.bincount(place, weights=right, minlength=BINS)[held] / counts[held]
    return Series(name, x.tolist(), y.tolist(), smooth=False)


def _risk_chart(curve: RiskCoverage) -> Chart:
    chosen = np.unique(np.linspace(0, len(curve.coverage) - 1, _POINTS).round().astype(int))
    line = Series("wrong answers", curve.coverage[chosen].tolist(), curve.risk[chosen].tolist(), smooth=False)
    note = f"Area below (AURC) {curve.aurc:.4f}; with every wrong answer last it would be {curve.best_aurc:.4f}."
    return Chart("Share that is wrong, by share answered", [line], x_label="coverage", unit="percent", note=note)


def _risk_table(curve: RiskCoverage, abstains: bool) -> Table:
    rows = []
    for risk in RISKS:
        found = curve.at_risk(risk)
        least = found["min_confidence"]
        rows.append((percent(risk), percent(found["coverage"] or 0.0), "–" if least is None else f"{least:.4f}"))
    return Table(
        ("wrong at most", "can be answered", "--min-confidence" if abstains else "from the confidence"),
        rows,
        title="Answering only when sure",
        note="Read off these very rows; on others a little more will be wrong.",
    )
