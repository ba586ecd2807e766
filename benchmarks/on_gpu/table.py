"""The Markdown tables of gpu.py's results, and the utilization in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from maskwright.core.storage import write_text
from maskwright.speed.backend import centered_cosines

TITLES = {
    ("pretrain", 128): "Pre-training, masked LM, sequences of at most 128 tokens",
    ("pretrain", 512): "Pre-training, masked LM, sequences of at most 512 tokens",
    ("finetune", 0): "Fine-tuning a classifier, sentences of natural lengths, 32 rows a step",
    ("embed", 0): "Inference in bulk, from text to vectors",
}
TERA, GIGA = 1e12, 1e9
LOW_COSINE = 0.95


def utilization(flops_per_second: float, peak: float | None) -> float | None:
    """Return the fraction of a peak, or None if unknown. Both in operations per second."""
    return None if peak is None else flops_per_second / peak


def write_tables(found: dict[str, Any], path: Path) -> None:
    """All of it as a page."""
    write_text(path, "\n".join(lines_of(found)) + "\n")


def lines_of(found: dict[str, Any]) -> list[str]:
    """The page line by line."""
    machine = found["machine"]
    lines = ["# On one GPU", "", *_introduction(machine), ""]
    for (part, length), title in TITLES.items():
        rows = [one for one in found["measured"] if (one["part"], one["length"]) == (part, length)]
        if rows:
            lines += [f"## {title}", "", *_rates(rows, machine), ""]
    embedded = [one for one in found["measured"] if one["part"] == "embed"]
    if embedded:
        lines += ["## Inference, one small request at a time", "", *_requests(embedded), ""]
    lines += [f"Vectors compared: {sentence}" for sentence in _cosines(embedded)]
    lines += ["Cut, because the time was up: " + "; ".join(found["cut"]) + "."] if found["cut"] else []
    lines += [f"Failed: {one['name']}: {one['why']}" for one in found["failed"]]
    return lines


def _introduction(machine: dict[str, Any]) -> list[str]:
    memory = "" if machine["memory"] is None else f", {machine['memory'] / GIGA:.0f} GB"
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items() if version)
    peak = "its peak is not in the table of makers' figures"
    if machine["peak"] is not None:
        peak = f"peak {machine['peak'] / TERA:,.0f} TFLOP/s in {machine['precision']} ({machine['peak_source']})"
    ceilings = ", ".join(f"{size} {value / TERA:,.1f}" for size, value in machine["ceilings"].items())
    return [
        f"{machine['name']}{memory}; {peak}.",
        f"Plain matrix products of these networks, measured at the start, TFLOP/s: {ceilings}.",
        f"Python {machine['python']}, {versions}; commit {machine['commit'] or 'not known'}.",
        "Utilization: operations that the network needs for the real tokens, logits at predicted positions",
        "alone, whatever is computed besides. Random weights; the same texts and masks for both.",
    ]


def _rates(rows: list[dict[str, Any]], machine: dict[str, Any]) -> list[str]:
    heads = ("tokens/s", "x", "of the peak", "of plain products", "step, ms", "tokens per step", "GB")
    lines = [
        f"| network | backend | {' | '.join(heads)} | notes |",
        f"| --- | --- |{' ---: |' * len(heads)} --- |",
    ]
    for one in rows:
        peers = [
            other["tokens_per_second"]
            for other in rows
            if other["size"] == one["size"] and other["contender"] == "transformers" and other["kind"] == "auto"
        ]
        ratio = f"{one['tokens_per_second'] / peers[0]:.2f}" if peers else ""
        ceiling = machine["ceilings"].get(one["size"])
        cells = [
            one["size"],
            one["contender"] + ("" if one["kind"] == "auto" else f", {one['kind']}"),
            f"{one['tokens_per_second']:,.0f}",
            ratio,
            _percent(utilization(one["flops_per_second"], machine["peak"])),
            _percent(utilization(one["flops_per_second"], ceiling)),
            f"{1000 * one['step_seconds']:.1f}" if "step_seconds" in one else "",
            f"{one['tokens_of_a_step']:,.0f}" if "tokens_of_a_step" in one else "",
            f"{one['memory'] / GIGA:.1f}" if one.get("memory") else "",
            f"layers {one['layers']}" if "layers" in one else "",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _requests(rows: list[dict[str, Any]]) -> list[str]:
    counts = list(rows[0]["small"])
    head = " | ".join(f"{count} text{'s' if count != '1' else ''}, p50 / p95 ms" for count in counts)
    lines = [f"| network | contender | {head} |", f"| --- | --- |{' ---: |' * len(counts)}"]
    for one in rows:
        cells = [
            f"{1000 * one['small'][count]['p50']:.2f} / {1000 * one['small'][count]['p95']:.2f}" for count in counts
        ]
        lines.append(f"| {one['size']} | {one['contender']} | {' | '.join(cells)} |")
    return lines


def _cosines(rows: list[dict[str, Any]]) -> list[str]:
    """Compare the embeddings of both backends, for each network."""
    found = []
    for size in dict.fromkeys(one["size"] for one in rows):
        own = {one["contender"]: np.array(one["vectors"]) for one in rows if one["size"] == size}
        if len(own) == 2:
            one, other = own.values()
            lowest = float(centered_cosines(one, other).min())
            said = "" if lowest >= LOW_COSINE else ": they are not those of one network, and these rates say little"
            found.append(f"{size}, lowest centered cosine {lowest:.4f}{said}.")
    return found


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"
