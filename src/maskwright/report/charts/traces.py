"""Converts series to lines: filters finite points, smooths, averages seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..findings import Series

SMOOTH_FROM = 40  # points; shorter lines are not smoothed
KERNEL_SHARE = 32  # standard deviation of the smoothing kernel: points / KERNEL_SHARE
MAX_SMOOTHED = 2000  # longer lines are averaged to this many points before smoothing
MAX_POINTS = 500  # charts are a few hundred pixels wide


@dataclass(frozen=True)
class Line:
    """Points in ascending x: float64 [points] each."""

    x: np.ndarray
    y: np.ndarray


@dataclass(frozen=True)
class Trace:
    """The lines of one name: the main line, and thin background lines (raw values or single seeds)."""

    name: str
    main: Line
    background: tuple[Line, ...]
    seeds: int


def traces(series: Sequence[Series], is_log: bool = False) -> tuple[list[Trace], int]:
    """One trace per name in order of appearance, and the number of skipped values that are not finite."""
    by_name: dict[str, list[tuple[Line, bool | None]]] = {}
    dropped = 0
    for one in series:
        line, lost = _finite(one, is_log)
        dropped += lost
        if len(line.x):
            by_name.setdefault(one.name, []).append((line, one.smooth))
    return [_trace(name, lines, is_log) for name, lines in by_name.items()], dropped


def downsample(line: Line, limit: int = MAX_POINTS) -> Line:
    """Downsamples to about `limit` points; keeps the minimum and maximum of each segment, so that spikes stay."""
    if len(line.x) <= limit:
        return line
    kept = {0, len(line.x) - 1}
    for segment in np.array_split(np.arange(len(line.x)), limit // 2):
        values = line.y[segment]
        kept |= {int(segment[values.argmin()]), int(segment[values.argmax()])}
    order = np.array(sorted(kept))
    return Line(line.x[order], line.y[order])


def smooth(line: Line) -> Line:
    """Local linear regression with Gaussian weights over the index of the points (not over x).

    Unlike a moving average it is not biased at the ends (Fan and Gijbels 1996, chapter 3). Long lines are first
    averaged over segments much shorter than the kernel.
    """
    line = _averaged(line)
    points = len(line.y)
    deviation = max(points / KERNEL_SHARE, 1.0)
    reach = min(int(3.5 * deviation), points - 1)
    offsets = np.arange(-reach, reach + 1)
    weight = np.exp(-0.5 * (offsets / deviation) ** 2)

    def moment(values: np.ndarray, power: int) -> np.ndarray:
        """Sum over neighbors of weight * offset**power * value: [points]."""
        kernel = (weight * offsets**power)[::-1]
        return np.convolve(values, kernel, mode="full")[reach : reach + points]

    ones = np.ones(points)
    sizes = [moment(ones, power) for power in range(3)]
    heights = [moment(line.y, power) for power in range(2)]
    return Line(line.x, (sizes[2] * heights[0] - sizes[1] * heights[1]) / (sizes[0] * sizes[2] - sizes[1] ** 2))


def _smoothed(line: Line, is_log: bool) -> Line:
    """Smooths the values, or their logarithms on a logarithmic axis."""
    if not is_log:
        return smooth(line)
    flat = smooth(Line(line.x, np.log(line.y)))
    return Line(flat.x, np.exp(flat.y))


def _averaged(line: Line) -> Line:
    if len(line.x) <= MAX_SMOOTHED:
        return line
    starts = np.linspace(0, len(line.x), MAX_SMOOTHED, endpoint=False).astype(int)
    sizes = np.diff(np.append(starts, len(line.x)))
    return Line(np.add.reduceat(line.x, starts) / sizes, np.add.reduceat(line.y, starts) / sizes)


def _trace(name: str, lines: list[tuple[Line, bool | None]], is_log: bool) -> Trace:
    drawn = []
    background: list[Line] = []
    for line, wanted in lines:
        is_smooth = len(line.x) >= SMOOTH_FROM if wanted is None else wanted and len(line.x) > 2
        drawn.append(_smoothed(line, is_log) if is_smooth else line)
        if is_smooth and len(lines) == 1:
            background.append(line)
    if len(drawn) == 1:
        return Trace(name, drawn[0], tuple(background), 1)
    return Trace(name, _mean(drawn), tuple(drawn), len(drawn))


def _mean(lines: list[Line]) -> Line:
    """The mean of several lines where all are defined, at the x values of the line with the most points."""
    low, high = max(line.x[0] for line in lines), min(line.x[-1] for line in lines)
    longest = max(lines, key=lambda line: len(line.x))
    x = longest.x[(longest.x >= low) & (longest.x <= high)]
    if not len(x):
        return longest
    return Line(x, np.mean([np.interp(x, line.x, line.y) for line in lines], axis=0))


def _finite(series: Series, is_log: bool) -> tuple[Line, int]:
    measured = [(x, y) for x, y in zip(series.x, series.y, strict=True) if y is not None]
    points = np.array(measured, dtype=np.float64).reshape(-1, 2)
    fine = np.isfinite(points).all(axis=1)
    if is_log:
        fine &= points[:, 1] > 0
    kept = points[fine]
    kept = kept[np.argsort(kept[:, 0], kind="stable")]
    return Line(kept[:, 0], kept[:, 1]), int((~fine).sum())
