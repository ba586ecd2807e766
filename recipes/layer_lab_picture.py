"""Draw finished layer comparisons side by side as one SVG: the score of each row, and the weights of the scalar mix.

python recipes/layer_lab_picture.py layers.svg runs/layers runs/lstm
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from maskwright.core import storage
from maskwright.core.config import read_toml
from maskwright.report.numbers import Markup, element

WIDTH, LEFT, ROOM, STEP = 780, 120, 250, 24
COLORS = ("#225ea8", "#d95f02", "#1b9e77")
INK, GREY = "#333333", "#dddddd"


def text(x: float, y: float, words: str, *, anchor: str = "start", color: str = INK, weight: str = "normal") -> Markup:
    """A line of text."""
    return element("text", words, x=f"{x:.1f}", y=f"{y:.1f}", fill=color, text_anchor=anchor, font_weight=weight)


def write_picture(output: Path, parts: Sequence[Markup], width: int, height: int, left: int = 0) -> None:
    """Write what is drawn as an SVG on white, so many pixels from its left edge."""
    background = element("rect", width=width, height=height, fill="#ffffff")
    drawn = element("g", parts, transform=f"translate({left} 8)")
    box = {"viewBox": f"0 0 {width} {height}", "width": width, "xmlns": "http://www.w3.org/2000/svg"}
    picture = element("svg", background, drawn, font_family="system-ui, sans-serif", font_size=12, **box)
    storage.write_text(output, f"{picture}\n")


def scores(labs: Sequence[dict[str, Any]]) -> list[Markup]:
    """A dot for each row and lab at its mean, with a line of one deviation to each side."""
    metric = labs[0]["main_metric"]
    rows = [[*lab["rows"], *([lab["finetuned"]] if lab["finetuned"] else [])] for lab in labs]
    names = list(dict.fromkeys(row["name"] for found in rows for row in found))
    means = [row["mean"][metric] for found in rows for row in found]
    low, high = min(means) - 0.02, max(means) + 0.02
    place = lambda value: LEFT + ROOM * (value - low) / (high - low)  # noqa: E731
    parts = [text(0, 14, f"Dev {metric.replace('_', ' ')} (%)", weight="bold")]
    for number, name in enumerate(names):
        y = 40 + STEP * number
        parts += [text(LEFT - 10, y + 4, name, anchor="end")]
        parts += [element("line", x1=LEFT, x2=LEFT + ROOM, y1=y, y2=y, stroke=GREY)]
        for lab, found in enumerate(rows):
            for row in found:
                if row["name"] == name:
                    mean, spread = row["mean"][metric], row["deviation"][metric]
                    ends = {"x1": f"{place(mean - spread):.1f}", "x2": f"{place(mean + spread):.1f}"}
                    parts.append(element("line", **ends, y1=y, y2=y, stroke=COLORS[lab], stroke_width=2))
                    parts.append(element("circle", cx=f"{place(mean):.1f}", cy=y, r=4.5, fill=COLORS[lab]))
                    # The first number is above its dot, the next one below, so that close ones are readable.
                    height = y - 7 if lab == 0 else y + 15
                    figure = f"{100 * mean:.1f}"
                    parts.append(text(place(mean), height, figure, anchor="middle", color=COLORS[lab]))
    return parts


def legend(labs: Sequence[dict[str, Any]], y: float) -> list[Markup]:
    """Which color is which lab."""
    return [text(LEFT, y + 18 * number, lab["about"], color=COLORS[number]) for number, lab in enumerate(labs)]


def mixes(labs: Sequence[dict[str, Any]]) -> list[Markup]:
    """The learned mix's share of each layer, as bars."""
    left, room = 500, 200
    parts = [text(left - 60, 14, "Scalar mix weights (%)", weight="bold")]
    shares = [next(row["mix"]["shares"] for row in lab["rows"] if row["mix"]) for lab in labs]
    longest = max(max(found) for found in shares)
    for layer in range(len(shares[0])):
        y = 32 + (10 * len(labs) + 12) * layer
        parts.append(
            text(left - 8, y + 5 * len(labs) + 4, "embeddings" if not layer else f"layer {layer}", anchor="end")
        )
        for number, found in enumerate(shares):
            top, width = y + 10 * number, room * found[layer] / longest
            parts.append(element("rect", x=left, y=top, width=f"{width:.1f}", height=9, fill=COLORS[number]))
            parts.append(text(left + width + 4, top + 8, f"{100 * found[layer]:.1f}", color=COLORS[number]))
    return parts


def main(output: Path, runs: Sequence[Path]) -> None:
    """Read result.json and config.toml of each run and write the picture."""
    labs = []
    for run in runs:
        recipe = read_toml(run / "config.toml")
        probe = "BiLSTM" if recipe["probe"] == "bilstm" else "linear layer"
        about = f"{probe}, {recipe['epochs']} epochs, {recipe['seeds']} seed{'s' * (recipe['seeds'] > 1)}"
        labs.append({**storage.read_json(run / "result.json"), "about": about})
    rows = max(len(lab["rows"]) + bool(lab["finetuned"]) for lab in labs)
    height = 50 + STEP * rows + 18 * len(labs)
    parts = [*scores(labs), *legend(labs, 52 + STEP * rows), *mixes(labs)]
    write_picture(output, parts, WIDTH, height + 16, left=10)


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(run) for run in sys.argv[2:]])
