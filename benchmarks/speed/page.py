"""Write the speed part of docs/results/speed.md and its charts from the measurements of run.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from encoders import CONTENDERS, REFERENCE
from goals import BASELINE as FIRST  # the baseline of the ratios
from goals import FORMATS, OURS, best_peer, fastest_peer, goals

from maskwright.core.storage import write_text
from maskwright.report.numbers import Markup, element

BEGIN, END = "<!-- speed: begin -->", "<!-- speed: end -->"
TITLES = {
    "natural": "texts of natural lengths, one call",
    "tail": "texts of long-tailed lengths, one call",
    "long": "texts at the maximum length of 512 tokens",
    "lists": "lists of 64 texts, a call for each",
    "latency": "one request at a time, milliseconds",
}
COLORS = {True: "#1565c0", False: "#9aa5b1"}
MOST_WORDS, MIN_COSINE = 128, 0.98  # of single requests: a less exact backend is not timed
ROW, LEFT, WIDTH, RIGHT, TOP = 24, 300, 420, 110, 34  # units of a picture


def write_page(output: Path, page: Path) -> None:
    """Replace the speed part of the page, or append it; charts go into images/ next to it."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(output.glob("*.json"))]
    parts = [one for one in found if "part" in one]
    lines = [BEGIN, "", "## Speed results", "", introduction(json.loads((output / "machine.json").read_text()))]
    lines += goals(parts)
    order = [*TITLES, "pretraining", "finetuning", "profile"]
    for part in sorted(parts, key=lambda one: (order.index(one["part"]), one.get("model", ""))):
        if part["part"] in TITLES:
            lines += inference(part, page)
        elif part["part"] == "profile":
            lines += profile(part)
        else:
            lines += training(part)
    text = "\n".join([*lines, "", END])
    whole = page.read_text(encoding="utf-8") if page.exists() else "# Benchmarks\n"
    before, mark, rest = whole.partition(BEGIN)
    after = rest.partition(END)[2] if mark else ""
    write_text(page, f"{before.rstrip()}\n\n{text}\n{after.lstrip()}")


def introduction(machine: dict[str, Any]) -> str:
    """Machine, versions and method."""
    facts, options = machine["facts"], machine["options"]
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items() if version)
    absent = ", ".join(name for name, version in machine["versions"].items() if version is None)
    sets = ", ".join(name for name in facts["instruction_sets"] if name.startswith(("avx512_", "amx", "avx2")))
    return "\n".join(
        [
            "Written by `benchmarks/speed/run.py` (`make bench`). Each backend runs in a separate process with the",
            "same texts. They are measured alternately, in rounds; the tables show medians and ranges. Others sort by",
            f"length, in batches of {options['batch']}, with prepared weights; ours runs `maskwright.Embedder` and",
            "`maskwright.TextClassifier` from text. Embeddings were compared before timing. Only compare ratios within",
            "one table.",
            "",
            f"{machine['processor']}, {options['threads']} threads ({sets or 'instruction sets not known'}), Python "
            f"{facts['python']}. {versions}." + (f" Missing: {absent}." if absent else ""),
        ]
    )


def inference(part: dict[str, Any], page: Path) -> list[str]:
    """A table, a picture, and who is missing."""
    lines = ["", f"### {part['model']}: {TITLES[part['part']]}", "", f"Measured at commit {part['commit']}.", ""]
    lines += latency_table(part) if part["part"] == "latency" else bulk_table(part, page)
    for name, why in part["missing"].items():
        lines += ["", f"Not measured: {title(name)}: {' '.join(why.split())[:200]}"]
    return lines


def bulk_table(part: dict[str, Any], page: Path) -> list[str]:
    """Rates, ratios and cosine similarities."""
    rows, cosines = part["rows"], part["cosines"]
    first = rows.get(FIRST, next(iter(rows.values())))["median"]
    lines = [
        f"{part['texts']:,} texts of {part['mean_tokens']:.0f} tokens on average, {part['longest']:,} at most; "
        f"{max(len(row['rates']) for row in rows.values())} rounds.",
        "",
        "| backend | tokens/s | range | x | x best of its precision | mean / min cosine | memory | texts |",
        "| --- | ---: | --- | ---: | ---: | --- | ---: | ---: |",
    ]
    for name in (name for name in CONTENDERS if name in rows):
        row, cosine = rows[name], cosines[name]
        best = best_peer(rows, name)
        ratio = f"{row['median'] / best:.2f}" if best and name.startswith(OURS) else ""
        lines.append(
            f"| {title(name)} | {row['median']:,.0f} | {min(row['rates']):,.0f} to {max(row['rates']):,.0f} | "
            f"{row['median'] / first:.2f} | {ratio} | {cosine['mean']:.4f} / {cosine['min']:.4f} | "
            f"{megabytes(row['memory'])} | {row['count']:,} |"
        )
    lines += [
        "",
        f"Cosine similarities are centered, to {title(REFERENCE)}. A slow backend gets a sample of the texts.",
    ]
    picture = f"speed-{part['model'].replace('/', '_')}-{part['part']}.svg"
    heading = f"{part['model']}, {TITLES[part['part']]}: tokens/s"
    draw(page.parent / "images" / picture, heading, {name: row["median"] for name, row in rows.items()})
    return [*lines, "", f"![Tokens per second by backend](images/{picture})"]


def latency_table(part: dict[str, Any]) -> list[str]:
    """The median and the 99th percentile of single requests."""
    rows, smallest = part["rows"], part["smallest"]
    sizes = list(next(iter(rows.values())))
    first = rows.get(FIRST, next(iter(rows.values())))
    heads = [f"{size} tokens, p50 | p99 | x | x best of its precision" for size in sizes]
    lines = [
        f"| backend | smallest cosine | {' | '.join(heads)} |",
        "| --- | ---: |" + " ---: | ---: | ---: | ---: |" * len(sizes),
    ]
    for name in (name for name in CONTENDERS if name in rows):
        cells = []
        for size in sizes:
            own, best = rows[name][size], fastest_peer(rows, name, size)
            ratio = f"{own['p50'] / best:.2f}" if best and name.startswith(OURS) else ""
            cells.append(
                f"{1000 * own['p50']:.2f} | {1000 * own['p99']:.2f} | {own['p50'] / first[size]['p50']:.2f} | {ratio}"
            )
        lines.append(f"| {title(name)} | {smallest[name]:.4f} | {' | '.join(cells)} |")
    lines += ["", "x: relative to the median of the first row; lower is better. Smallest cosine: to"]
    lines += [f"{title(REFERENCE)}, over texts of 1 to {MOST_WORDS} words."]
    less_exact = {name: cosine for name, cosine in smallest.items() if name not in rows}
    return lines + [
        line
        for name, cosine in less_exact.items()
        for line in ("", f"Not timed: {title(name)}: its smallest cosine is {cosine:.4f}, below {MIN_COSINE}.")
    ]


def training(part: dict[str, Any]) -> list[str]:
    """A table for each setting."""
    unit = "tokens/s" if part["part"] == "pretraining" else "rows/s"
    what = "Pre-training, masked LM, full sequences of 128" if unit == "tokens/s" else "Fine-tuning, from texts"
    lines = ["", f"### {what}"]
    for setting, found in part["settings"].items():
        rows = found["rows"]
        first = next(iter(rows.values()), {"median": 1.0})["median"]
        rounds = max((len(row["rates"]) for row in rows.values()), default=0)
        lines += ["", f"{setting}, {rounds} {'round' if rounds == 1 else 'rounds'}, at commit {found['commit']}:", ""]
        lines += [f"| backend | {unit} | range | x | memory |", "| --- | ---: | --- | ---: | ---: |"]
        lines += [
            f"| {name} | {row['median']:,.0f} | {min(row['rates']):,.0f} to {max(row['rates']):,.0f} | "
            f"{row['median'] / first:.2f} | {megabytes(row['memory'])} |"
            for name, row in rows.items()
        ]
        for name, why in found["missing"].items():
            lines += ["", f"Not measured: {name}: {' '.join(why.split())[-200:]}"]
    return lines


def profile(part: dict[str, Any]) -> list[str]:
    """Fractions of wall-clock time, a column for each path, sorted by their sums."""
    paths = part["paths"]
    sums: dict[str, float] = {}
    for shares in paths.values():
        for kind, share in shares.items():
            sums[kind] = sums.get(kind, 0.0) + share
    lines = ["", "### Profile", ""]
    lines += [f"| fraction of the time | {' | '.join(paths)} |", "| --- |" + " ---: |" * len(paths)]
    for kind in sorted(sums, key=lambda kind: -sums[kind]):
        cells = [f"{100 * shares[kind]:.1f}%" if shares.get(kind, 0) >= 0.0005 else "" for shares in paths.values()]
        lines.append(f"| {kind} | {' | '.join(cells)} |")
    lines += [
        "",
        "Measured with torch's profiler (`benchmarks/speed/profiles.py`), including its overhead, at commit",
    ]
    return [*lines, f"{part['commit']}."]


def megabytes(memory: float | None) -> str:
    """Peak memory, where it is known."""
    return "" if memory is None else f"{memory / 1e6:,.0f} MB"


def title(name: str) -> str:
    """The name of a backend on the page."""
    return CONTENDERS[name][2]


def draw(path: Path, heading: str, rates: dict[str, float]) -> None:
    """Draw bars from zero, by precision, then fastest first; ours are blue."""
    names = sorted(rates, key=lambda name: (FORMATS.index(CONTENDERS[name][1]["precision"]), -rates[name]))
    longest = max(rates.values())
    parts: list[Markup] = [element("text", heading, x=12, y=20, fill="#222222", font_weight="600")]
    for number, name in enumerate(names):
        middle, size = TOP + ROW * number + ROW / 2, WIDTH * rates[name] / longest
        label = title(name).partition(", batches")[0]
        parts += [
            element("text", label, x=LEFT - 8, y=middle + 4, text_anchor="end", fill="#222222"),
            element("rect", x=LEFT, y=middle - 8, width=size, height=16, fill=COLORS[name.startswith(OURS)]),
            element("text", f"{rates[name]:,.0f}", x=LEFT + size + 6, y=middle + 4, fill="#222222"),
        ]
    width, height = LEFT + WIDTH + RIGHT, TOP + ROW * len(names) + 12
    picture = element(
        "svg",
        element("rect", width=width, height=height, fill="#ffffff"),
        parts,
        xmlns="http://www.w3.org/2000/svg",
        viewbox=f"0 0 {width} {height}",
        width=width,
        font_family="system-ui, sans-serif",
        font_size=12,
        role="img",
        aria_label=f"{heading}: bars for {len(names)} backends",
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, f"{picture}\n")
