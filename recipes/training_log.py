"""The training log of a distillation from embeddings as a Markdown table and as a picture.

    python recipes/training_log.py docs/results/images/english-training.svg runs/english/run runs/english2/run

Each argument after the picture is a run folder; runs that continue one another are drawn one after the other. Points
and rows are means of `--window` steps.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from running import run_main

from maskwright.core import storage
from maskwright.core.errors import InputError
from maskwright.report.numbers import Markup, element
from maskwright.train.run import RunFolder

WINDOW = 200
ROWS = 8  # of the table, for each run
WIDTH, HEIGHT, ROOM, TALL, TOP, GAP = 780, 232, 216, 150, 40, 258
INK, GREY, LINE = "#222222", "#dddddd", "#1565c0"


@dataclass(frozen=True)
class Point:
    """Means of some steps; tokens: in millions, since the first run began."""

    run: int
    step: int
    tokens: float
    cosine: float
    mlm_loss: float
    mlm_accuracy: float


@dataclass(frozen=True)
class Panel:
    """A curve of the picture: its title, its values, and how they are written."""

    title: str
    value: Callable[[Point], float]
    format: str


PANELS = (
    Panel("Cosine similarity to the teacher", lambda point: point.cosine, "{:.2f}"),
    Panel("Masked LM loss", lambda point: point.mlm_loss, "{:.1f}"),
    Panel("Masked-token accuracy", lambda point: point.mlm_accuracy, "{:.0%}"),
)


def main() -> None:
    """Write the picture and print the table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("picture", type=Path)
    options.add_argument("runs", type=Path, nargs="+", help="run folders, in the order of training")
    options.add_argument("--window", type=int, default=WINDOW, help="steps per point")
    chosen = options.parse_args()
    points = points_of(chosen.runs, chosen.window)
    storage.write_text(chosen.picture, f"{picture(points)}\n")
    print(table(points))


def points_of(runs: Sequence[Path], window: int) -> list[Point]:
    """The means of every `window` steps of all runs. Raises InputError for a folder without such a log."""
    points, before = [], 0.0
    for number, run in enumerate(runs, start=1):
        records = [record for record in RunFolder(run, {}).records() if "embedding_loss" in record]
        if not records:
            raise InputError(f"{run} has no log of a distillation from embeddings (metrics.jsonl).")
        own: list[dict[str, float]] = []
        for record in records:
            own.append(record)
            before += record["tokens"] / 1e6
            if record["step"] % window == 0 or record is records[-1]:
                cosine = 1 - _mean(own, "embedding_loss")
                loss, accuracy = _mean(own, "mlm_loss"), _mean(own, "mlm_accuracy")
                points.append(Point(number, int(record["step"]), before, cosine, loss, accuracy))
                own = []
    return points


def table(points: Sequence[Point]) -> str:
    """About `ROWS` points of each run, always with the last."""
    lines = ["| part | step | million tokens | cosine to the teacher | masked LM loss | masked-token accuracy |"]
    lines += ["| --- " * 6 + "|"]
    for run in dict.fromkeys(point.run for point in points):
        own = [point for point in points if point.run == run]
        every = max(len(own) // ROWS, 1)
        lines += [
            f"| {one.run} | {one.step:,} | {one.tokens:.1f} | {one.cosine:.3f} | {one.mlm_loss:.2f} | "
            f"{one.mlm_accuracy:.1%} |"
            for number, one in enumerate(own, start=1)
            if number % every == 0 or one is own[-1]
        ]
    return "\n".join(lines)


def picture(points: Sequence[Point]) -> Markup:
    """Three panels over the training tokens, on white, so that it is legible on pages of any color."""
    parts = [element("rect", width=WIDTH, height=HEIGHT, fill="#ffffff")]
    for number, panel in enumerate(PANELS):
        parts.append(element("g", _panel(points, panel), transform=f"translate({36 + number * GAP} {TOP})"))
    box = {"viewBox": f"0 0 {WIDTH} {HEIGHT}", "xmlns": "http://www.w3.org/2000/svg"}
    font = {"font_family": "system-ui, sans-serif", "font_size": 11}
    label = "Training of english: " + ", ".join(panel.title.lower() for panel in PANELS)
    return element("svg", parts, width=WIDTH, role="img", aria_label=label, **box, **font)


def _panel(points: Sequence[Point], panel: Panel) -> list[Markup]:
    values, last = [panel.value(point) for point in points], points[-1].tokens
    low, high = min(values), max(values)
    span = (high - low) or 1.0

    def place(point: Point) -> tuple[float, float]:
        return ROOM * point.tokens / last, TALL * (1 - (panel.value(point) - low) / span)

    parts = [_text(-28, -14, panel.title, weight="600")]
    parts += [element("rect", width=ROOM, height=TALL, fill="none", stroke=GREY)]
    parts += [_text(-4, y, panel.format.format(value), anchor="end") for value, y in ((high, 8), (low, TALL))]
    parts += [_text(0, TALL + 16, "0"), _text(ROOM, TALL + 16, f"{last:.1f}", anchor="end")]
    parts += [_text(ROOM / 2, TALL + 30, "million training tokens", anchor="middle")]
    for run in dict.fromkeys(point.run for point in points):
        own = [place(point) for point in points if point.run == run]
        if run > 1:
            x = f"{own[0][0]:.1f}"
            parts.append(element("line", x1=x, x2=x, y1=0, y2=TALL, stroke=GREY, stroke_dasharray="4 3"))
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in own)
        parts.append(element("polyline", points=line, fill="none", stroke=LINE, stroke_width=2))
    return parts


def _text(x: float, y: float, words: str, anchor: str = "start", weight: str = "normal") -> Markup:
    return element("text", words, x=f"{x:.1f}", y=f"{y:.1f}", fill=INK, text_anchor=anchor, font_weight=weight)


def _mean(records: Sequence[dict[str, float]], name: str) -> float:
    return float(np.mean([record[name] for record in records]))


if __name__ == "__main__":
    run_main(main)
