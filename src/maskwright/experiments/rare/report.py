"""The HTML report of a comparison of methods for class imbalance."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.options import command_line
from ...report import (
    Block,
    Chart,
    Command,
    Comparison,
    Curves,
    Facts,
    NextSteps,
    Report,
    RunMetadata,
    Score,
    Section,
    Series,
    System,
    Table,
    write_report,
)
from ...report.numbers import percent
from ...tasks.anomaly.report import error_histograms
from ...tasks.evaluation.rare_scores import METRICS, Curve, SeedPredictions
from ...train.run import RunFolder
from .config import RareLabConfig
from .methods import METHODS

RECALLS = (0.25, 0.5, 0.75)
FOLLOWS_LENGTH = 0.3  # correlation from which the report mentions it
# Settings of `finetune` by method.
SETTINGS: dict[str, Callable[[RareLabConfig], dict[str, Any]]] = {
    "class-weights": lambda config: {"class_weight": "balanced"},
    "focal": lambda config: {"focal": config.focal},
    "resampling": lambda config: {"resample": "balanced"},
    "threshold": lambda config: {"threshold_for": config.rare_class},
    "plain": lambda config: {},
}


@dataclass(frozen=True)
class ComparisonData:
    """The test rows of a comparison and what the methods found.

    gold: bool [rows], rare or not; classes: the original label of each test row; sizes: number of rows and of rare rows
    of train, dev and test; num_repeated: removed duplicates; curves: by method; errors: `mean_errors`; words: length of
    each test row, int [rows].
    """

    config: RareLabConfig
    gold: np.ndarray
    classes: np.ndarray
    sizes: Mapping[str, Mapping[str, int]]
    num_repeated: int
    num_seeds: int
    curves: Mapping[str, Curve]
    errors: np.ndarray
    words: np.ndarray

    @property
    def rows_by_class(self) -> dict[str, np.ndarray]:
        """Which test rows have each original class, bool [rows]; the rare class last."""
        names = sorted(set(self.classes), key=lambda name: (name == self.config.rare_class, name))
        return {str(name): self.classes == name for name in names}


def write_rare_lab_report(run: RunFolder, data: ComparisonData, rows: list[dict[str, Any]]) -> None:
    """Write report.html of a run. rows: the table, as in its result."""
    config = data.config
    share = float(data.gold.mean())
    blocks: list[Block] = [
        _table(rows, share, data.num_seeds),
        _differences(rows),
        Curves([_curves(data, share)], title="Precision over recall"),
        _precisions(data),
        Section(
            "Errors of the autoencoder, by class",
            error_histograms({name: data.errors[rows] for name, rows in data.rows_by_class.items()}, title="Test rows"),
            lead=f"It is trained without rows of '{config.rare_class}'. Where the histograms overlap, the error does "
            f"not separate the classes; the last bar contains the largest 1%. {length_sentence(data)}",
        ),
        Facts(
            {
                **{f"{name} rows": f"{size['rows']:,}, {size['rare']:,} rare" for name, size in data.sizes.items()},
                "seeds": data.num_seeds,
                "skipped duplicate texts": data.num_repeated,
            },
            title="The rows",
            note="The test rows are the same for all methods and seeds; train and dev are resampled for each seed.",
        ),
        RunMetadata(
            command_line(RareLabConfig, run.recipe),
            {key: str(value) for key, value in run.recipe.items()},
            run.facts(),
        ),
        _next(data, rows),
    ]
    title = f"'{config.rare_class}' at {percent(config.rate)} on {config.data.name}"
    write_report(run.path / "report.html", Report(title, headline(rows), None, blocks, run.facts()["started"]))


def headline(rows: list[dict[str, Any]]) -> str:
    """The best method by PR-AUC, and the significant differences from plain fine-tuning."""
    best = max(rows, key=lambda row: row["pr_auc"]["mean"])
    better, worse = verdicts(rows, "pr_auc")
    parts = [f"Best PR-AUC: {best['title']}, {best['pr_auc']['mean']:.3f}."]
    parts.append(f"Above plain fine-tuning beyond noise: {', '.join(better) or 'nothing'}.")
    if worse:
        parts.append(f"Below it: {', '.join(worse)}.")
    return " ".join(parts)


def verdicts(rows: list[dict[str, Any]], metric: str) -> tuple[list[str], list[str]]:
    """Titles of the methods significantly above plain fine-tuning, and of those significantly below."""
    gaps = [(row["title"], row["minus_plain"][metric]) for row in rows if "minus_plain" in row]
    sure = [(title, gap["mean"]) for title, gap in gaps if gap["beyond_noise"]]
    return [title for title, gap in sure if gap > 0], [title for title, gap in sure if gap < 0]


def _table(rows: list[dict[str, Any]], share: float, seeds: int) -> Section:
    shown = [[row["title"], *(_with_interval(row[metric]) for metric in METRICS), row["about"]] for row in rows]
    names = [metric.replace("_", " ") for metric in METRICS]
    best = int(np.argmax([row["pr_auc"]["mean"] for row in rows]))
    note = (
        f"Mean over {seeds} seeds with the 95% interval of 1,000 bootstrap samples of test rows and seeds."
        if seeds > 1
        else "With the 95% interval of 1,000 bootstrap samples of the test rows. With one seed, it excludes the "
        "variation over samples of rows and initial weights."
    )
    table = Table(["method", *names, "what it does"], shown, right=names, strong=[best], note=note)
    systems = [
        System(row["title"], {metric: Score(row[metric]["mean"], row[metric]["deviation"]) for metric in METRICS})
        for row in rows
    ]
    random = System("random order", {"pr_auc": share}, source="baseline")
    return Section(
        "The methods",
        [table, Comparison([*systems, random], metrics=METRICS, title="", note="± over seeds." if seeds > 1 else "")],
    )


def _differences(rows: list[dict[str, Any]]) -> Table:
    shown = [
        [
            row["title"],
            *(
                _with_interval(row["minus_plain"][metric], "+")
                + (" *" if row["minus_plain"][metric]["beyond_noise"] else "")
                for metric in METRICS
            ),
        ]
        for row in rows
        if "minus_plain" in row
    ]
    names = [metric.replace("_", " ") for metric in METRICS]
    return Table(
        ["method", *names],
        shown,
        title="Minus plain fine-tuning",
        right=names,
        note="Paired bootstrap. * marks significant differences: the interval does not contain zero.",
    )


def _curves(data: ComparisonData, share: float) -> Chart:
    lines = [
        Series(METHODS[method].title, curve.recall.tolist(), curve.precision.tolist(), smooth=False)
        for method, curve in data.curves.items()
    ]
    return Chart(
        "Precision at each recall",
        lines,
        x_label="recall",
        baselines={"random order": share},
        note="The highest precision at this recall or beyond, mean over seeds.",
    )


def _precisions(data: ComparisonData) -> Table:
    """The curves at three values of recall, with intervals."""
    shown = []
    for method, curve in data.curves.items():
        cells = []
        for recall in RECALLS:
            at = int(np.abs(curve.recall - recall).argmin())
            cells.append(_with_interval({"mean": curve.precision[at], "low": curve.low[at], "high": curve.high[at]}))
        shown.append([METHODS[method].title, *cells])
    names = [f"recall {percent(recall)}" for recall in RECALLS]
    note = "Mean over seeds with the 95% bootstrap interval over test rows and seeds."
    return Table(["method", *names], shown, title="Precision by recall", right=names, note=note)


def mean_errors(by_seed: Sequence[SeedPredictions]) -> np.ndarray:
    """Mean error of the autoencoder over seeds for each test row: float64 [rows]."""
    return np.mean([judged.values for judged in by_seed], axis=0)


def errors_by_length(data: ComparisonData) -> dict[str, Any]:
    """Whether the error of the autoencoder follows the length of a text instead of its class.

    Returns {"correlation": Spearman correlation of error and number of words in the rest, "rare_words", "rest_words":
    median number of words, "auc": ROC-AUC of the error, "long_words", "long_auc": of the texts of at least so many
    words, which nine of ten rare rows have}; None where undefined.
    """
    from scipy.stats import spearmanr
    from sklearn.metrics import roc_auc_score

    words, rare = data.words, data.gold
    longest = int(np.quantile(words[rare], 0.1))
    long = words >= longest
    varies = len(set(words[~rare])) > 1 and len(set(data.errors[~rare])) > 1
    return {
        "correlation": float(spearmanr(data.errors[~rare], words[~rare]).statistic) if varies else None,
        "rare_words": float(np.median(words[rare])),
        "rest_words": float(np.median(words[~rare])),
        "auc": float(roc_auc_score(rare, data.errors)),
        "long_words": longest,
        "long_auc": float(roc_auc_score(rare[long], data.errors[long])) if not rare[long].all() else None,
    }


def length_sentence(data: ComparisonData) -> str:
    """A warning that the error follows the length of a text, or nothing."""
    found = errors_by_length(data)
    if found["correlation"] is None or abs(found["correlation"]) < FOLLOWS_LENGTH:
        return ""
    return (
        f"The error follows the length of a text (Spearman correlation {found['correlation']:.2f} in the rest), and "
        f"'{data.config.rare_class}' has {found['rare_words']:.0f} words, the rest {found['rest_words']:.0f} (medians)."
    )


def _with_interval(score: dict[str, Any], sign: str = "") -> str:
    return f"{score['mean']:{sign}.3f} ({score['low']:{sign}.3f} to {score['high']:{sign}.3f})"


def _next(data: ComparisonData, rows: list[dict[str, Any]]) -> NextSteps:
    config = data.config
    tuned = [row for row in rows if row["method"] in SETTINGS]
    best = max(tuned, key=lambda row: (row["f1"]["mean"], row["pr_auc"]["mean"]))
    values = {"model": config.model, "train": "train.tsv", "output": "runs/rare-model"}
    about = f"train with what had the best F1 here: {best['title']}"
    return NextSteps([Command.suggest(about, "finetune", **values, **SETTINGS[best["method"]](config))])
