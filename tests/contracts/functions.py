"""The contracts of what is one function: schedules, metrics, commands, and the formats of exported graphs."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np

from maskwright.core import registry
from maskwright.export.runtimes import Format

STEPS, WARMUP = 40, 4
LABELS = np.array([0, 1, 1, 0, 1, 0, 0, 1])
WRONG = 1 - LABELS


def is_a_decay(name: str, folder: Path) -> None:
    """A fraction of the peak that never grows, and is the peak where the warmup ends."""
    decay = registry.resolve("schedule", name)
    found = [decay(step, STEPS, WARMUP) for step in range(WARMUP, STEPS)]
    assert abs(found[0] - 1) < 0.2 and all(0 <= value <= 1 for value in found)
    assert all(later <= earlier for earlier, later in zip(found, found[1:], strict=False))


def is_a_number(name: str, folder: Path) -> None:
    """A plain float for right, wrong and constant predictions, which tells right from wrong."""
    metric = registry.resolve("metric", name)
    ordered = LABELS if name != "micro_f1" else LABELS[:, None].astype(bool)
    other = WRONG if name != "micro_f1" else ~ordered
    right, wrong, constant = (metric(ordered, given) for given in (ordered, other, np.zeros_like(ordered)))
    assert all(isinstance(value, float) and math.isfinite(value) for value in (right, wrong, constant))
    assert right != wrong


def ignores_order(name: str, folder: Path) -> None:
    """The order of the rows does not matter."""
    metric, order = registry.resolve("metric", name), np.array([3, 0, 7, 1, 6, 2, 5, 4])
    given = np.array([0, 1, 0, 0, 1, 1, 0, 1])
    gold = LABELS if name != "micro_f1" else LABELS[:, None].astype(bool)
    given = given if name != "micro_f1" else given[:, None].astype(bool)
    assert math.isclose(metric(gold, given), metric(gold[order], given[order]), abs_tol=1e-12)


def names_its_command(name: str, folder: Path) -> None:
    """The settings of a command are a dataclass that names it, as the table does."""
    settings = registry.resolve("command", name)
    assert dataclasses.is_dataclass(settings) and name.startswith(settings.COMMAND)


COMMAND = {
    "command": names_its_command,
}
SCHEDULE = {"shapes": is_a_decay}
METRIC = {
    "shapes": is_a_number,
    "packing": ignores_order,
}


def is_a_format(name: str, folder: Path) -> None:
    """A program that runs the graph of a format names the file and the outputs."""
    form = registry.resolve("export_format", name)
    assert isinstance(form, Format)
    if form.open is None:
        assert "{file}" in form.script[0]
    else:
        assert "{file}" in form.script[1] and "{names}" in form.script[2]


EXPORT_FORMAT = {"program": is_a_format}
