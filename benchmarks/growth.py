"""Measure how time and memory scale with batch size, length, corpus size, vocabulary size and threads.

Each curve runs in a separate process, from the smallest size up. Work is what a size requires (operations of the
network, bytes of text), so the quadratic term of attention is work. The page lists costs that grow faster than the
work, with the size where that begins. The small run takes five minutes on two idle cores; --full takes far longer.

    python benchmarks/growth.py -o growth-run
    python benchmarks/growth.py -o growth-run --curves length,corpus --full
    python benchmarks/growth.py -o growth-run --page docs/results/growth.md     # the page, and its picture in images/

Writes OUTPUT/growth.json, and OUTPUT/growth.md (or the page) with growth.svg. A curve in growth.json is not measured
again; delete the file to restart.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "growing"), str(HERE.parent / "src")]

from curves import CURVES  # noqa: E402
from fit import MARGIN, Growth, growth  # noqa: E402

from maskwright.core.progress import note, set_quiet  # noqa: E402
from maskwright.core.storage import write_json, write_text  # noqa: E402
from maskwright.core.util import usable_cores  # noqa: E402
from maskwright.doctor.machine import machine_facts  # noqa: E402
from maskwright.report.numbers import Markup, element  # noqa: E402
from maskwright.speed.backend_process import environment  # noqa: E402

LENGTHS = [32, 64, 128, 256, 512, 1024, 2048, 4096]
SIZES: dict[str, tuple[list[int], list[int]]] = {  # the small run's, and the full one's
    "batch": ([1, 4, 16, 64, 256, 1024], [1, 4, 16, 64, 256, 1024, 4096, 16384]),
    "length": (LENGTHS, LENGTHS),
    "training-batch": ([1, 4, 16, 64], [1, 2, 4, 8, 16, 32, 64, 128, 256]),
    "training-length": (LENGTHS, LENGTHS),
    "vocabulary": ([1000, 4000, 16000, 64000], [1000, 2000, 4000, 8000, 16000, 32000, 64000, 128000, 256000]),
    "corpus": ([1, 2, 4, 8], [1, 3, 10, 30, 100, 300, 1000]),
    "tokenizer-corpus": ([1, 2, 4, 8], [1, 3, 10, 30, 100, 300]),
    "tokenizer-vocabulary": ([1000, 2000, 4000, 8000], [1000, 4000, 8000, 16000, 32000, 64000]),
}
PANEL, ACROSS, PLOT, LEFT, TOP = 250, 3, 170, 52, 34  # units of the picture
BLUE, GREY = "#1565c0", "#9aa5b1"


def main() -> None:
    """Measure what is missing, and write."""
    options = parse()
    set_quiet(options.quiet)
    options.output.mkdir(parents=True, exist_ok=True)
    kept = options.output / "growth.json"
    found: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {"curves": {}}
    found["machine"] = machine_facts()
    names = options.curves.split(",") if options.curves else list(CURVES)
    with tempfile.TemporaryDirectory(dir=options.output) as work:
        for name in names:
            if name in found["curves"]:
                continue
            sizes = given(options.sizes) or sizes_of(name, options.full)
            note(f"{name}: {', '.join(map(str, sizes))}")
            found["curves"][name] = measured(name, sizes, work, options)
            write_json(kept, found)
    page = options.page or options.output / "growth.md"
    pictures = page.parent / "images" if options.page else page.parent
    pictures.mkdir(parents=True, exist_ok=True)
    write_text(pictures / "growth.svg", f"{picture(found)}\n")
    write_text(page, "\n".join(lines_of(found, f"{'images/' if options.page else ''}growth.svg")) + "\n")
    note(str(page))


def sizes_of(name: str, full: bool) -> list[int]:
    """Those of a run; threads as many as this machine has."""
    if name in SIZES:
        return SIZES[name][full]
    cores = usable_cores()
    return sorted({*(1 << power for power in range(cores.bit_length()) if 1 << power <= cores), cores})


def measured(name: str, sizes: list[int], work: str, options: argparse.Namespace) -> dict[str, Any]:
    """The points of a curve; what a failure leaves, with its last words."""
    command = [sys.executable, str(HERE / "growing" / "curves.py"), name, ",".join(map(str, sizes)), "--work", work]
    for flag in ("preset", "vocab_size", "precision", "seconds", "step_tokens", "text_megabytes"):
        command += [f"--{flag.replace('_', '-')}", str(getattr(options, flag))]
    threads = None if name.endswith("threads") else options.threads
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env=environment(threads), timeout=options.limit
        )
        said, output = (done.stderr.strip()[-300:] if done.returncode else None), done.stdout
    except subprocess.TimeoutExpired as error:
        output = error.stdout.decode() if isinstance(error.stdout, bytes) else error.stdout or ""
        said = f"cut after {options.limit:g} s"
    points = [json.loads(line) for line in output.splitlines() if line.startswith("{") and line.endswith("}")]
    if said is not None:
        note(f"{name}: {said}")
    return {"points": points, "failed": said}


def lines_of(found: dict[str, Any], picture_path: str) -> list[str]:
    """The page."""
    facts, grown = found["machine"], growths(found)
    lines = [
        "# Scaling of cost",
        "",
        "Written by `benchmarks/growth.py`. The columns time, work and memory are exponents of the size, fitted to the",
        "larger half of the sizes. Drift: seconds per unit of work at the largest size, divided by the minimum.",
        "",
        f"{facts['processor']['usable_cores']} cores, Python {facts['python']}, torch {facts['versions']['torch']}.",
        "",
        "| curve | sizes | seconds | time | work | drift | memory, MB | memory |",
        "| --- | --- | --- | ---: | ---: | ---: | --- | ---: |",
    ]
    for name, own in grown.items():
        points, curve = found["curves"][name]["points"], CURVES[name]
        first, last = points[0], points[-1]
        lines.append(
            f"| {curve.title} | {first['size']:,} to {last['size']:,} {curve.unit} | "
            f"{first['seconds']:.3g} to {last['seconds']:.3g} | {own.time:.2f} | {own.work:.2f} | {own.drift:.2f} | "
            f"{first['memory'] / 1e6:,.0f} to {last['memory'] / 1e6:,.0f} | {_power(own.memory)} |"
        )
    lines += ["", f"![Time and work, a panel for each curve]({picture_path})", "", "## Costs above the work", ""]
    lines += named(grown) or ["Nothing."]
    failed = {name: own["failed"] for name, own in found["curves"].items() if own["failed"]}
    return [*lines, *(f"\nNot measured to the end: {name}: {why}" for name, why in failed.items())]


def growths(found: dict[str, Any]) -> dict[str, Growth]:
    """Of every curve with two points or more."""
    curves = {name: found["curves"][name]["points"] for name in CURVES if name in found["curves"]}
    return {name: growth(points, CURVES[name].memory) for name, points in curves.items() if len(points) > 1}


def named(grown: dict[str, Growth]) -> list[str]:
    """A sentence for each cost that grows faster than it should."""
    found = []
    for name, own in grown.items():
        curve = CURVES[name]
        if own.is_faster:
            where = f", most after {own.worst:,} {curve.unit}" if own.worst is not None else ""
            found.append(
                f"- {curve.title}: at the largest size {own.drift:.2f} times the minimum time for the same work "
                f"({curve.work}; up to {MARGIN:.2f} counts as noise){where}."
            )
        if own.takes_more:
            found.append(
                f"- {curve.title}: memory grows with the power {_power(own.memory)} of the {curve.unit}, and may with "
                f"{curve.memory:g}."
            )
    return found


def picture(found: dict[str, Any]) -> Markup:
    """A panel for each curve, both axes logarithmic: seconds as dots, work as a line through the cheapest of them."""
    names = list(growths(found))
    rows = -(-len(names) // ACROSS)
    width, height = PANEL * ACROSS, PANEL * max(rows, 1)
    panels = [
        element("g", panel(found["curves"][name]["points"], CURVES[name].title, CURVES[name].unit),
                transform=f"translate({PANEL * (number % ACROSS)} {PANEL * (number // ACROSS)})")
        for number, name in enumerate(names)
    ]  # fmt: skip
    return element(
        "svg", element("rect", width=width, height=height, fill="#ffffff"), panels,
        xmlns="http://www.w3.org/2000/svg", viewbox=f"0 0 {width} {height}", width=width,
        font_family="system-ui, sans-serif", font_size=10, role="img",
        aria_label=f"Time and work in {len(names)} panels",
    )  # fmt: skip


def panel(points: list[dict[str, float]], title: str, unit: str) -> list[Markup]:
    """One of them."""
    each = min(point["seconds"] / point["work"] for point in points)
    lines = {"seconds": [point["seconds"] for point in points], "work": [each * point["work"] for point in points]}
    low, high = (math.log(limit(lines["seconds"] + lines["work"])) for limit in (min, max))
    first, last = math.log(points[0]["size"]), math.log(points[-1]["size"])

    def at(size: float, seconds: float) -> tuple[float, float]:
        across = (math.log(size) - first) / max(last - first, 1e-9)
        return LEFT + PLOT * across, TOP + PLOT * (1 - (math.log(seconds) - low) / max(high - low, 1e-9))

    work = [at(point["size"], cost) for point, cost in zip(points, lines["work"], strict=True)]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in work)
    parts = [
        element("text", title, x=8, y=16, fill="#222222", font_weight="600"),
        element("rect", x=LEFT, y=TOP, width=PLOT, height=PLOT, fill="none", stroke="#dddddd"),
        element("polyline", points=path, fill="none", stroke=GREY, stroke_dasharray="4 3"),
    ]
    for point in points:
        x, y = at(point["size"], point["seconds"])
        parts.append(element("circle", cx=f"{x:.1f}", cy=f"{y:.1f}", r=3.5, fill=BLUE))
    for point, anchor in ((points[0], "start"), (points[-1], "end")):
        x, y = at(point["size"], point["seconds"])
        parts.append(element("text", f"{point['size']:,} {unit}", x=f"{x:.1f}", y=TOP + PLOT + 14, text_anchor=anchor))
        parts.append(element("text", f"{point['seconds']:.3g} s", x=LEFT - 4, y=f"{y + 3:.1f}", text_anchor="end"))
    return parts


def given(sizes: str | None) -> list[int] | None:
    """Sizes from the command line."""
    return None if sizes is None else [int(size) for size in sizes.split(",")]


def _power(value: float | None) -> str:
    return "little" if value is None else f"{value:.2f}"


def parse() -> argparse.Namespace:
    """The flags."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-o", "--output", type=Path, default=Path("growth-run"))
    parser.add_argument("--curves", help=f"of {', '.join(CURVES)}  [default: all]")
    parser.add_argument("--sizes", help="instead of each curve's own")
    parser.add_argument("--full", action="store_true", help="more and larger sizes, to 1,000 MB of text")
    parser.add_argument("--preset", default="bert-mini")
    parser.add_argument("--vocab-size", type=int, default=8_000)
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16"])
    parser.add_argument("--step-tokens", type=int, default=4096, help="of a training step")
    parser.add_argument("--text-megabytes", type=int, default=2, help="of text where the size is something else")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each point, once it is warm")
    parser.add_argument("--limit", type=float, default=3600.0, help="seconds of one curve at most")
    parser.add_argument("--threads", type=int, help="of every curve but those of threads")
    parser.add_argument("--page", type=Path, help="where the page goes")
    parser.add_argument("--quiet", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
