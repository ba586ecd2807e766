"""Draw finished imbalance experiments side by side as one SVG.

    python recipes/rare_lab_picture.py scores rare.svg "at 5%=runs/rare-0.05" "at 10%=runs/rare-0.1"
    python recipes/rare_lab_picture.py curves curves.svg "at 5%=runs/rare-0.05"
    python recipes/rare_lab_picture.py errors errors.svg "at 5%=runs/rare-0.05"

scores: the PR-AUC of every method, with its interval. curves: precision by recall of three methods, with the interval
as a band. errors: the reconstruction error of the autoencoder by class, as a fraction of the rows of the class.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from layer_lab_picture import COLORS, GREY, STEP, text, write_picture
from running import run_main

from maskwright.core import storage
from maskwright.core.errors import InputError
from maskwright.report.numbers import Markup, element

LEFT, ROOM, GAP, FULL = 180, 250, 50, 0.6
TALL, MARGIN, BINS = 180, 46, 30
DRAWN = {"plain": "plain fine-tuning", "tfidf": "TF-IDF, logistic regression", "autoencoder": "autoencoder"}


def main() -> None:
    """Read result.json of each run and write the picture."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("kind", choices=["scores", "curves", "errors"])
    options.add_argument("picture", type=Path)
    options.add_argument("runs", nargs="+", metavar="TITLE=RUN")
    chosen = options.parse_args()
    labs = [read_run(run) for run in chosen.runs]
    parts: list[Markup] = []
    for number, (title, result) in enumerate(labs):
        if chosen.kind == "scores":
            parts += scores(title, result, LEFT + number * (ROOM + GAP), names=number == 0)
        else:
            left = MARGIN + number * (ROOM + GAP)
            parts += (curves if chosen.kind == "curves" else errors)(title, result, left)
    height = 60 + STEP * max(len(result["rows"]) for _, result in labs) if chosen.kind == "scores" else TALL + 130
    first = LEFT if chosen.kind == "scores" else MARGIN
    write_picture(chosen.picture, parts, first + len(labs) * (ROOM + GAP) + 10, height)


def read_run(named: str) -> tuple[str, dict[str, Any]]:
    """The title and the result of "title=run"."""
    title, _, run = named.rpartition("=")
    path = Path(run) / "result.json"
    if not path.is_file():
        raise InputError(f"{path} is missing: pass finished runs of `maskwright experiment rare`.")
    return title, storage.read_json(path)


def scores(title: str, result: dict[str, Any], left: float, names: bool) -> list[Markup]:
    """A dot for each method at its mean, with its interval; the dotted line is a random ranking."""
    rows, bottom = result["rows"], 30 + STEP * len(result["rows"])
    place = lambda value: left + ROOM * value / FULL  # noqa: E731
    parts = [text(left, 14, f"PR-AUC {title}", weight="bold")]
    for tick in (0.0, 0.2, 0.4, 0.6):
        parts.append(element("line", x1=place(tick), x2=place(tick), y1=24, y2=bottom, stroke=GREY))
        parts.append(text(place(tick), bottom + 16, f"{tick:g}", anchor="middle"))
    share = place(random_precision(result))
    parts.append(element("line", x1=share, x2=share, y1=24, y2=bottom, stroke="#888888", stroke_dasharray="2 3"))
    for number, row in enumerate(rows):
        y, score = 40 + STEP * number, row["pr_auc"]
        if names:
            parts.append(text(left - 10, y + 4, row["title"], anchor="end"))
        ends = {"x1": f"{place(score['low']):.1f}", "x2": f"{place(min(score['high'], FULL)):.1f}"}
        parts.append(element("line", **ends, y1=y, y2=y, stroke=COLORS[0], stroke_width=2))
        parts.append(element("circle", cx=f"{place(score['mean']):.1f}", cy=y, r=4.5, fill=COLORS[0]))
        parts.append(text(place(score["mean"]), y - 7, f"{score['mean']:.2f}", anchor="middle", color=COLORS[0]))
    return parts


def curves(title: str, result: dict[str, Any], left: float) -> list[Markup]:
    """Precision by recall with bands; the dotted line is a random ranking."""
    parts = panel(f"Precision by recall, {title}", left, "recall")
    share = random_precision(result)
    ends = {"y1": f"{height(share):.1f}", "y2": f"{height(share):.1f}"}
    parts.append(element("line", x1=left, x2=left + ROOM, **ends, stroke="#888888", stroke_dasharray="2 3"))
    for tick in (0.0, 0.5, 1.0):
        parts.append(text(left + ROOM * tick, 30 + TALL + 16, f"{tick:g}", anchor="middle"))
        parts.append(text(left - 6, height(tick) + 4, f"{tick:g}", anchor="end"))
    for number, (method, name) in enumerate(DRAWN.items()):
        curve = result["curves"][method]
        x = [left + ROOM * recall for recall in curve["recall"]]
        around = [*zip(x, curve["high"], strict=True), *zip(x[::-1], curve["low"][::-1], strict=True)]
        parts.append(element("polygon", points=path_of(around), fill=COLORS[number], fill_opacity=0.15))
        line = path_of(list(zip(x, curve["precision"], strict=True)))
        parts.append(element("polyline", points=line, fill="none", stroke=COLORS[number], stroke_width=2))
        parts.append(text(left, 30 + TALL + 54 + 18 * number, name, color=COLORS[number]))
    return parts


def errors(title: str, result: dict[str, Any], left: float) -> list[Markup]:
    """The fraction of each class in each bin of the error; the last bin has all above the 99th percentile."""
    parts = panel(f"Error by class, {title}", left, "mean squared error")
    every = np.concatenate([np.array(values) for values in result["errors"].values()])
    edges = np.linspace(every.min(), np.quantile(every, 0.99), BINS + 1)
    shares = {
        name: np.histogram(np.clip(values, edges[0], edges[-1]), bins=edges)[0] / len(values)
        for name, values in result["errors"].items()
    }
    top = max(share.max() for share in shares.values())
    for tick in (edges[0], edges[-1]):
        x = left + ROOM * (tick - edges[0]) / (edges[-1] - edges[0])
        parts.append(text(x, 30 + TALL + 16, f"{tick:.3g}", anchor="middle"))
    parts.append(text(left - 6, height(1) + 4, f"{100 * top:.0f}%", anchor="end"))
    for number, (name, share) in enumerate(shares.items()):
        corners = [
            (left + ROOM * at / BINS, value / top) for bin_, value in enumerate(share) for at in (bin_, bin_ + 1)
        ]
        line = path_of(corners)
        parts.append(element("polyline", points=line, fill="none", stroke=COLORS[number], stroke_width=2))
        about = f"{name}, {len(result['errors'][name]):,} rows"
        parts.append(text(left, 30 + TALL + 54 + 18 * number, about, color=COLORS[number]))
    return parts


def panel(title: str, left: float, below: str) -> list[Markup]:
    """A panel with its title and the name of its x axis."""
    return [
        text(left, 14, title, weight="bold"),
        element("rect", x=left, y=30, width=ROOM, height=TALL, fill="none", stroke=GREY),
        text(left + ROOM / 2, 30 + TALL + 32, below, anchor="middle"),
    ]


def random_precision(result: dict[str, Any]) -> float:
    """The fraction of the rare class: the precision of a random ranking."""
    test = result["parts"]["test"]
    return float(test["rare"] / test["rows"])


def height(share: float) -> float:
    """The y of a value from 0 to 1 in a panel."""
    return 30 + TALL * (1 - share)


def path_of(points: list[tuple[float, float]]) -> str:
    """Points of a line: x in pixels, y from 0 to 1."""
    return " ".join(f"{x:.1f},{height(y):.1f}" for x, y in points)


if __name__ == "__main__":
    run_main(main)
