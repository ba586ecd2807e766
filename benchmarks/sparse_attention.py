"""Time and memory of dense and sparse attention from 512 to 4,096 tokens, with the exponents of their growth.

One sequence, forward and backward, without dropout. Each figure comes from a separate process: the median CPU seconds
of several rounds on one thread (least affected by other load), and the growth of the peak memory of the process. The
exponent is the slope of a straight line through the logarithms: 2 is quadratic, 1 is linear.

    python benchmarks/sparse_attention.py --plot sparse-attention.svg --patterns sparse-patterns.svg
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from maskwright.core.memory import peak_memory, resident_memory
from maskwright.core.storage import write_text
from maskwright.report.charts.grids import picture
from maskwright.report.charts.scales import Scale, labels
from maskwright.report.numbers import Markup, element, join

LENGTHS = (512, 1024, 2048, 4096)
NAMES = {
    "explicit": "dense, explicit",
    "fused": "dense, torch's fused kernel",
    "big_bird": "BigBird, blocks of 64",
    "window": "sliding window of 64",
}
COLOURS = ("#b3261e", "#b26a00", "#1565c0", "#2e7d32", "#888888")
MEGABYTE = 1 << 20


def contender(name: str, length: int, heads: int) -> Callable:
    """A function from qkv [length, 3 * hidden] to context [length, hidden]."""
    from maskwright.nn.attention import Run, attend
    from maskwright.nn.sparse import SlidingWindow, attend_sparse, big_bird

    runs = [Run(0, 1, length)]
    if name in ("explicit", "fused"):
        return lambda qkv: attend(qkv, runs, heads, fused=name == "fused")[0]
    rule = big_bird(64, 3) if name == "big_bird" else SlidingWindow(64)
    return lambda qkv: attend_sparse(qkv, runs, heads, rule)[0]


def measure(name: str, length: int, options: argparse.Namespace) -> dict[str, float]:
    """CPU seconds of a step, forward and backward, and bytes by which it raises the peak of this process."""
    import torch

    torch.set_num_threads(1)
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[options.precision]
    width = options.heads * options.head_dim

    def prepared(tokens: int) -> Callable[[], None]:
        """A step on a fixed sequence of `tokens`."""
        generator = torch.Generator().manual_seed(tokens)
        qkv = torch.randn(tokens, 3 * width, generator=generator).to(dtype).requires_grad_()
        upstream = torch.randn(tokens, width, generator=generator).to(dtype)
        attention = contender(name, tokens, options.heads)

        def step() -> None:
            qkv.grad = None
            attention(qkv).backward(upstream)

        return step

    prepared(192)()  # loads what is loaded once
    step = prepared(length)
    before, peak = resident_memory(), peak_memory()
    step()
    grown = peak_memory()
    seconds = []
    for _ in range(options.rounds):
        start = time.process_time()
        step()
        seconds.append(time.process_time() - start)
    return {"seconds": statistics.median(seconds), "bytes": max(grown, peak) - before}


def exponent(lengths: list[int], values: list[float]) -> float:
    """The slope of log(value) over log(length)."""
    return float(np.polyfit(np.log(lengths), np.log(values), 1)[0])


def table(found: dict[str, list[dict[str, float]]], lengths: list[int]) -> str:
    """What was measured, in Markdown."""
    head = "".join(f" {length:,} |" for length in lengths)
    lines = [f"| attention | |{head} exponent |", "| --- | --- |" + " ---: |" * (len(lengths) + 1)]
    for name, rows in found.items():
        for key, unit, scale in (("seconds", "ms", 1e3), ("bytes", "MB", 1 / MEGABYTE)):
            values = [row[key] for row in rows]
            cells = "".join(f" {value * scale:,.0f} |" for value in values)
            lines.append(f"| {NAMES[name]} | {unit} |{cells} {exponent(lengths, values):.2f} |")
    return "\n".join(lines)


def plot(found: dict[str, list[dict[str, float]]], lengths: list[int]) -> Markup:
    """Both measures over the length, on logarithmic axes."""
    panels = [
        ("Time of a step, ms", "seconds", 1e3),
        ("Memory of a step, MB", "bytes", 1 / MEGABYTE),
    ]
    parts = []
    for number, (title, key, unit) in enumerate(panels):
        lines = {name: [row[key] * unit for row in rows] for name, rows in found.items()}
        parts.append(element("g", panel(title, lengths, lines), transform=f"translate({70 + 440 * number} 50)"))
    legend = [
        join(
            element("line", x1=70 + 215 * number, x2=94 + 215 * number, y1=400, y2=400, stroke=color, stroke_width=2),
            text(100 + 215 * number, 404, NAMES[name], anchor="start"),
        )
        for number, (name, color) in enumerate(zip(found, COLOURS, strict=False))
    ]
    return svg(930, 420, *parts, *legend)


def panel(title: str, lengths: list[int], lines: dict[str, list[float]]) -> Markup:
    """One chart of 360 by 290, with the exponent at the end of each line."""
    values = [value for line in lines.values() for value in line]
    x = Scale(min(lengths) / 1.1, max(lengths) * 1.1, is_log=True)
    y = Scale(min(values) / 1.3, max(values) * 1.3, is_log=True)
    parts = [text(0, -18, title, anchor="start", weight="bold")]
    ticks = y.ticks(5)
    for tick, name in zip(ticks, labels(ticks, is_log=True), strict=True):
        height = 290 * (1 - y.place(tick))
        parts += [element("line", x1=0, x2=330, y1=height, y2=height, stroke="#dddddd")]
        parts += [text(-8, height + 4, name, anchor="end")]
    parts += [text(330 * x.place(length), 312, f"{length:,}") for length in lengths]
    parts.append(text(165, 334, "tokens"))
    ends = []
    for line, color in zip(lines.values(), COLOURS, strict=False):
        places = [(330 * x.place(a), 290 * (1 - y.place(b))) for a, b in zip(lengths, line, strict=True)]
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in places)
        parts.append(element("polyline", points=points, fill="none", stroke=color, stroke_width=2))
        parts += [element("circle", cx=a, cy=b, r=3, fill=color) for a, b in places]
        ends.append((places[-1][1], f"n^{exponent(lengths, line):.2f}", color))
    lowest = 0.0
    for height, slope, color in sorted(ends):
        lowest = max(height, lowest + 14)  # labels of lines with the same end are stacked
        parts.append(text(places[-1][0] + 8, lowest + 4, slope, anchor="start", color=color))
    return join(parts)


def patterns(num_blocks: int = 16) -> Markup:
    """The block maps of BigBird's parts, and of all together."""
    from maskwright.nn.sparse import big_bird, global_only, random_only, window_only

    rules = {
        "random": random_only(64, 2),
        "window": window_only(64),
        "global": global_only(64),
        "all together": big_bird(64, 2),
    }
    return picture({name: rule.pattern(num_blocks, 1).draw() for name, rule in rules.items()})


def svg(width: int, height: int, *parts: Markup) -> Markup:
    """A drawing that stands alone."""
    paper = element("rect", width=width, height=height, fill="#ffffff")
    style = {"font-family": "system-ui, sans-serif", "font-size": 12}
    return element(
        "svg", paper, parts, xmlns="http://www.w3.org/2000/svg", viewbox=f"0 0 {width} {height}", width=width, **style
    )


def text(x: float, y: float, words: str, *, anchor: str = "middle", weight: str = "normal", color: str = "#333333"):
    """Text at a position."""
    return element("text", words, x=x, y=y, fill=color, text_anchor=anchor, font_weight=weight)


def main() -> None:
    """Measure one figure (in a child process), or all of them in turn."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--head-dim", type=int, default=64)
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--lengths", type=int, nargs="+", default=list(LENGTHS))
    parser.add_argument("--plot", type=Path, help="write the curves here, as SVG")
    parser.add_argument("--patterns", type=Path, help="write a picture of the patterns here, as SVG")
    parser.add_argument("--one", nargs=2, metavar=("NAME", "LENGTH"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one[0], int(options.one[1]), options)))
        return
    same = [
        f"--{key.replace('_', '-')}={getattr(options, key)}" for key in ("heads", "head_dim", "precision", "rounds")
    ]
    found: dict[str, list[dict[str, float]]] = {name: [] for name in NAMES}
    for length in options.lengths:
        for name in NAMES:
            command = [sys.executable, __file__, "--one", name, str(length), *same]
            result = subprocess.run(
                command, stdout=subprocess.PIPE, text=True, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
            )
            found[name].append(json.loads(result.stdout))
            print(f"{name} {length}: {result.stdout.strip()}", file=sys.stderr, flush=True)
    print(f"{options.heads} heads of {options.head_dim}, {options.precision}, {platform.machine()}, one thread\n")
    print(table(found, options.lengths))
    if options.plot:
        write_text(options.plot, plot(found, options.lengths) + "\n")
    if options.patterns:
        write_text(options.patterns, patterns() + "\n")


if __name__ == "__main__":
    main()
