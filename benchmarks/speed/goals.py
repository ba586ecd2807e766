"""Compare the measured speed with the goals: the first table of the page that run.py writes.

A goal is a ratio within one run: to the baseline (transformers in float32, batches in the order of arrival), and to the
best other backend in the same precision.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from encoders import CONTENDERS

BASELINE = "transformers"
OURS = "maskwright"
FORMATS = ("fp32", "bf16", "int8")
# part -> title, the lowest ratio to the baseline, and to the best other backend, for each precision
BULK = {
    "natural": ("in bulk", (2.7, 5.4, 7.5), (1.15, 1.2, 1.15)),
    "tail": ("long-tailed lengths", (4.0, 6.5, 8.0), (2.3, 2.3, 2.3)),
    "lists": ("lists of 64", (2.5, 5.0, 7.0), (1.3, 1.3, 1.3)),
}
# precision -> tokens of a request -> the highest fraction of the baseline, and of the best other backend
LATENCY: dict[str, dict[str, tuple[float | None, float]]] = {
    "fp32": {"32": (None, 0.75), "128": (None, 0.9)},
    "bf16": {"32": (0.28, 1.0), "128": (0.38, 1.0)},
    "int8": {"32": (0.24, 1.0), "128": (0.32, 1.0)},
}
TRAINER = "transformers Trainer bf16"
TRAINING = {"mini-8k": (3.3, 1.75), "mini-30k": (6.8, 3.2), "small-8k": (2.8, 1.6), "base-30k": (2.6, 1.45)}
SHARES = {"mini-8k": 0.58, "mini-30k": 0.58, "base-30k": 0.70}  # of the throughput of plain matrix products


def goals(parts: list[dict[str, Any]]) -> list[str]:
    """A table with a row for each measured goal; no lines if none was measured."""
    rows = [row for part in parts for row in _rows(part, parts)]
    if not rows:
        return []
    head = ["", "### Goals", "", "| path | measured | goal | |", "| --- | ---: | ---: | --- |"]
    return head + [
        f"| {path} | {measured:.2f} | {'at most' if is_least else 'at least'} {goal:g} | "
        f"{'met' if (measured <= goal if is_least else measured >= goal) else 'missed'} |"
        for path, measured, goal, is_least in rows
    ]


Row = tuple[str, float, float, bool]  # path, measured, goal, whether less is better


def _rows(part: dict[str, Any], parts: list[dict[str, Any]]) -> Iterator[Row]:
    if part["part"] in BULK:
        yield from _bulk(part)
    elif part["part"] == "latency":
        yield from _latency(part)
    elif part["part"] == "pretraining":
        yield from _pretraining(part)
    elif part["part"] == "finetuning":
        yield from _finetuning(part)
    elif part["part"] == "profile":
        yield from _shares(part, parts)


def best_peer(rows: dict[str, Any], name: str) -> float | None:
    """The highest rate of the other backends in the precision of `name`."""
    precision = CONTENDERS[name][1]["precision"]
    rates = [
        row["median"]
        for other, row in rows.items()
        if not other.startswith(OURS) and CONTENDERS[other][1]["precision"] == precision
    ]
    return max(rates, default=None)


def _bulk(part: dict[str, Any]) -> Iterator[Row]:
    title, baseline_goals, best_goals = BULK[part["part"]]
    rows = part["rows"]
    for precision, people, best in zip(FORMATS, baseline_goals, best_goals, strict=True):
        name = f"{OURS}-{precision}"
        if name not in rows:
            continue
        path = f"{part['model']}, {title}, {precision}"
        peer = best_peer(rows, name)
        if BASELINE in rows:
            yield f"{path}: x baseline", rows[name]["median"] / rows[BASELINE]["median"], people, False
        if peer:
            yield f"{path}: x best other backend", rows[name]["median"] / peer, best, False


def fastest_peer(rows: dict[str, Any], name: str, size: str) -> float | None:
    """The lowest median latency of the other backends in the precision of `name`."""
    precision = CONTENDERS[name][1]["precision"]
    medians = [
        row[size]["p50"]
        for other, row in rows.items()
        if not other.startswith(OURS) and CONTENDERS[other][1]["precision"] == precision
    ]
    return min(medians, default=None)


def _latency(part: dict[str, Any]) -> Iterator[Row]:
    rows = part["rows"]
    for precision, sizes in LATENCY.items():
        name = f"{OURS}-{precision}"
        for size, (baseline_goal, best_goal) in sizes.items():
            if size not in rows.get(name, {}):
                continue
            own, peer = rows[name][size]["p50"], fastest_peer(rows, name, size)
            path = f"{part['model']}, one request of {size} tokens, {precision}, p50"
            if BASELINE in rows and baseline_goal is not None:
                yield f"{path}: fraction of baseline", own / rows[BASELINE][size]["p50"], baseline_goal, True
            if peer:
                yield f"{path}: fraction of best other backend", own / peer, best_goal, True


def _pretraining(part: dict[str, Any]) -> Iterator[Row]:
    for setting, (people, best) in TRAINING.items():
        rows = part["settings"].get(setting, {}).get("rows", {})
        peers = {name: row["median"] for name, row in rows.items() if not name.startswith(OURS)}
        if TRAINER in peers and f"{OURS} bf16" in rows:
            rate = rows[f"{OURS} bf16"]["median"]
            yield f"pre-training {setting}: x Trainer bf16", rate / peers[TRAINER], people, False
            yield f"pre-training {setting}: x best other backend", rate / max(peers.values()), best, False
    rows = part["settings"].get("mini-30k", {}).get("rows", {})
    if TRAINER in rows and f"{OURS} bf16" in rows:
        measured = rows[f"{OURS} bf16"]["memory"] / rows[TRAINER]["memory"]
        yield "pre-training mini-30k, memory: part of Trainer's", measured, 0.5, True


def _finetuning(part: dict[str, Any]) -> Iterator[Row]:
    for found in part["settings"].values():
        rows = found["rows"]
        ours = rows.get("maskwright.TextClassifier.fit")
        for peer, title, goal in (
            ("transformers Trainer fp32", "Trainer fp32", 3.8),
            ("the same, math attention", "the loop with math attention", 1.25),
        ):
            if ours is not None and peer in rows:
                yield f"fine-tuning: x {title}", ours["median"] / rows[peer]["median"], goal, False


def _shares(part: dict[str, Any], parts: list[dict[str, Any]]) -> Iterator[Row]:
    ceiling, needed = part["ceilings"]["bf16"], part["operations"]
    for other in parts:
        if other["part"] == "natural" and other["model"] == "base" and f"{OURS}-bf16" in other["rows"]:
            rate = other["rows"][f"{OURS}-bf16"]["median"]
            yield (
                "inference base, bf16: fraction of plain matrix products",
                rate * needed["base inference"] / ceiling,
                0.8,
                False,
            )
        if other["part"] == "pretraining":
            for setting, goal in SHARES.items():
                row = other["settings"].get(setting, {}).get("rows", {}).get(f"{OURS} bf16")
                if row is not None:
                    share = row["median"] * needed[setting] / ceiling
                    yield f"pre-training {setting}: fraction of plain matrix products", share, goal, False
