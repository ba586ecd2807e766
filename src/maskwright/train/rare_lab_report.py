"""The page of a comparison of ways to find a rare class."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import numpy as np

from ..tasks.rare_scores import METRICS, mean_curve
from .rare_methods import METHODS
from .rare_report import error_histograms
from .report import (
    Block,
    Chart,
    Command,
    Comparison,
    Curves,
    Facts,
    NextSteps,
    Report,
    Score,
    Section,
    Series,
    System,
    Table,
    WhatRan,
    write_report,
)
from .report.numbers import percent

if TYPE_CHECKING:
    from .rare_lab import RareLab

OPTIONS = {
    "class-weights": "--class-weight balanced",
    "focal": "--focal {focal:g}",
    "resampling": "--resample balanced",
    "threshold": "--threshold-for {rare_class}",
}


def write_rare_lab_report(lab: RareLab, rows: list[dict[str, Any]]) -> None:
    """Write report.html of a run. rows: the table, as in its result."""
    config = lab.config
    share = float(lab.gold.mean())
    blocks: list[Block] = [
        _table(rows, share, len(lab.seeds)),
        _differences(rows),
        Curves([_curves(lab, share)], title="Precision over recall"),
        Section(
            "Errors of the autoencoder, by class",
            error_histograms(_errors(lab), title="Test rows"),
            lead=f"It has seen no row of '{config.rare_class}'. Where the histograms lie over each other, the error "
            "tells nothing; the largest hundredth is in the last bar.",
        ),
        Facts(
            {
                **{f"{name} rows": f"{size['rows']:,}, {size['rare']:,} rare" for name, size in lab.sizes.items()},
                "seeds": len(lab.seeds),
                "rows that repeat a text, left out": lab.pool.num_repeated,
            },
            title="The rows",
            note="The test rows are the same for all methods and seeds; train and dev are drawn anew for each seed.",
        ),
        WhatRan(
            shlex.join(_command(lab.run.recipe)),
            {key: str(value) for key, value in lab.run.recipe.items()},
            lab.run.facts(),
        ),
        _next(lab, rows),
    ]
    title = f"'{config.rare_class}' at {percent(config.rate)} on {config.data.name}"
    write_report(lab.run.path / "report.html", Report(title, headline(rows), None, blocks, lab.run.facts()["started"]))


def headline(rows: list[dict[str, Any]]) -> str:
    """Which method is best by PR-AUC, and what is beyond noise beside plain fine-tuning."""
    best = max(rows, key=lambda row: row["pr_auc"]["mean"])
    better, worse = verdicts(rows, "pr_auc")
    parts = [f"Best PR-AUC: {best['title']}, {best['pr_auc']['mean']:.3f}."]
    parts.append(f"Above plain fine-tuning beyond noise: {', '.join(better) or 'nothing'}.")
    if worse:
        parts.append(f"Below it: {', '.join(worse)}.")
    return " ".join(parts)


def verdicts(rows: list[dict[str, Any]], metric: str) -> tuple[list[str], list[str]]:
    """Titles of the methods that are above plain fine-tuning beyond noise, and of those below."""
    gaps = [(row["title"], row["minus_plain"][metric]) for row in rows if "minus_plain" in row]
    sure = [(title, gap["mean"]) for title, gap in gaps if gap["beyond_noise"]]
    return [title for title, gap in sure if gap > 0], [title for title, gap in sure if gap < 0]


def _table(rows: list[dict[str, Any]], share: float, seeds: int) -> Section:
    shown = [[row["title"], *(_with_interval(row[metric]) for metric in METRICS), row["about"]] for row in rows]
    names = [metric.replace("_", " ") for metric in METRICS]
    best = int(np.argmax([row["pr_auc"]["mean"] for row in rows]))
    note = (
        f"Mean over {seeds} seeds with the 95 % interval of 1,000 bootstrap samples of test rows and seeds."
        if seeds > 1
        else "With the 95 % interval of 1,000 bootstrap samples of the test rows. One seed: how much another draw of "
        "rows and weights would change is not in it."
    )
    table = Table(["method", *names, "what it does"], shown, right=names, strong=[best], note=note)
    systems = [
        System(row["title"], {metric: Score(row[metric]["mean"], row[metric]["deviation"]) for metric in METRICS})
        for row in rows
    ]
    lots = System("drawing lots", {"pr_auc": share}, source="baseline")
    return Section(
        "The methods",
        [table, Comparison([*systems, lots], metrics=METRICS, title="", note="± over seeds." if seeds > 1 else "")],
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
        note="Paired: the same samples for both methods. * marks what is beyond noise: zero lies outside the interval.",
    )


def _curves(lab: RareLab, share: float) -> Chart:
    lines = []
    for method, facts in METHODS.items():
        if facts.needs is None:  # the others have the values of the method that they need
            recall, precision = mean_curve(lab.gold, lab.judged(method))
            lines.append(Series(facts.title, recall.tolist(), precision.tolist(), smooth=False))
    return Chart(
        "Precision at each recall",
        lines,
        x_label="recall",
        baselines={"drawing lots": share},
        note="The highest precision at this recall or beyond, mean over seeds.",
    )


def _errors(lab: RareLab) -> dict[str, np.ndarray]:
    """Mean error over seeds of each test row, by the class that it had; the rare class last."""
    values = np.mean([judged.values for judged in lab.judged("autoencoder")], axis=0)
    names = sorted(set(lab.classes), key=lambda name: (name == lab.config.rare_class, name))
    return {str(name): values[lab.classes == name] for name in names}


def _with_interval(score: dict[str, Any], sign: str = "") -> str:
    return f"{score['mean']:{sign}.3f} ({score['low']:{sign}.3f} to {score['high']:{sign}.3f})"


def _next(lab: RareLab, rows: list[dict[str, Any]]) -> NextSteps:
    config = lab.config
    tuned = [row for row in rows if row["method"] in OPTIONS or row["method"] == "plain"]
    best = max(tuned, key=lambda row: (row["f1"]["mean"], row["pr_auc"]["mean"]))
    options = OPTIONS.get(best["method"], "").format(focal=config.focal, rare_class=shlex.quote(config.rare_class))
    command = (
        f"maskwright finetune classification --model {config.model} --train train.tsv {options} -o runs/rare-model"
    )
    return NextSteps([Command(" ".join(command.split()), f"train with what had the best F1 here: {best['title']}")])


def _command(recipe: dict[str, Any]) -> list[str]:
    names = (
        "data",
        "model",
        "rare_class",
        "rate",
        "seeds",
        "max_train_rows",
        "epochs",
        "lr",
        "batch_size",
        "max_length",
    )
    words = ["maskwright", "rare-lab"]
    for name in (*names, "focal", "seed"):
        if name in recipe:
            words += [f"--{name.replace('_', '-')}", str(recipe[name])]
    return [*words, "-o", recipe["output"]]
