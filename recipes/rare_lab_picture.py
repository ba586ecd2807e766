"""Draw finished imbalance experiments side by side as one SVG: the PR-AUC of every method, with its interval.

python recipes/rare_lab_picture.py rare.svg "at 5 %=runs/rare-0.05" "at 10 %=runs/rare-0.1"
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from layer_lab_picture import COLOURS, GREY, STEP, text, write_picture

from maskwright.core import storage
from maskwright.report.markup import Markup, element

LEFT, ROOM, GAP, FULL = 180, 250, 50, 0.6


def panel(title: str, result: dict[str, Any], left: float, names: bool) -> list[Markup]:
    """A dot for each method at its mean, with its interval; the line of dots is drawing lots."""
    rows, share = result["rows"], result["parts"]["test"]["rare"] / result["parts"]["test"]["rows"]
    bottom = 30 + STEP * len(rows)
    place = lambda value: left + ROOM * value / FULL  # noqa: E731
    parts = [text(left, 14, f"PR-AUC {title}", weight="bold")]
    for tick in (0.0, 0.2, 0.4, 0.6):
        parts.append(element("line", x1=place(tick), x2=place(tick), y1=24, y2=bottom, stroke=GREY))
        parts.append(text(place(tick), bottom + 16, f"{tick:g}", anchor="middle"))
    dots = {"stroke": "#888888", "stroke_dasharray": "2 3"}
    parts.append(element("line", x1=place(share), x2=place(share), y1=24, y2=bottom, **dots))
    for number, row in enumerate(rows):
        y, score = 40 + STEP * number, row["pr_auc"]
        if names:
            parts.append(text(left - 10, y + 4, row["title"], anchor="end"))
        ends = {"x1": f"{place(score['low']):.1f}", "x2": f"{place(min(score['high'], FULL)):.1f}"}
        parts.append(element("line", **ends, y1=y, y2=y, stroke=COLOURS[0], stroke_width=2))
        parts.append(element("circle", cx=f"{place(score['mean']):.1f}", cy=y, r=4.5, fill=COLOURS[0]))
        parts.append(text(place(score["mean"]), y - 7, f"{score['mean']:.2f}", anchor="middle", color=COLOURS[0]))
    return parts


def main(output: Path, labs: list[str]) -> None:
    """Read result.json of each "title=run" and write the picture."""
    parts: list[Markup] = []
    rows = 0
    for number, lab in enumerate(labs):
        title, _, run = lab.partition("=")
        result = storage.read_json(Path(run) / "result.json")
        rows = max(rows, len(result["rows"]))
        parts += panel(title, result, LEFT + number * (ROOM + GAP), names=number == 0)
    write_picture(output, parts, LEFT + len(labs) * (ROOM + GAP) + 10, 60 + STEP * rows)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
