"""The page docs/results/serving.md, from the figures of benchmarks/serving.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

OURS, FAST = "maskwright fp32", "maskwright auto"
INFINITY, PLAIN = "infinity-emb", "FastAPI + sentence-transformers"
HEAD = """# Serving, measured

Written by `benchmarks/serving.py`; do not edit. One model (MiniLM, float32, from a local folder), one server at a time,
with the load generator on the same machine. Every request has one sentence, and every response its vector as JSON
numbers. Times run from the moment when a request was due.
"""
Figure = Callable[[dict[str, Any]], float | None]


def of(one: dict[str, Any], section: str, figure: str) -> float | None:
    """A figure of a server; None if it was not measured."""
    value: float | None = one.get(section, {}).get(figure)
    return value


# Name, unit, figure of a server, and the factors of infinity-emb's and the plain server's figure that are the goal, for
# float32 and for --precision auto (None: no goal of its own). A factor above 1 is a lower bound, below 1 an upper one.
GOALS: list[tuple[str, str, Figure, dict[str, tuple[float, float]]]] = [
    (
        "64 closed-loop clients",
        "texts/s",
        lambda one: of(one, "clients", "answered_per_second"),
        {OURS: (1.5, 3.0), FAST: (2.5, 5.0)},
    ),
    ("64 closed-loop clients, p99", "ms", lambda one: of(one, "clients", "p99_ms"), {OURS: (0.6, 0.3)}),
    ("one client, p50", "ms", lambda one: of(one, "lone", "p50_ms"), {OURS: (0.8, 0.8)}),
    (
        "short texts among 10% long ones, 70% load, p99",
        "ms",
        lambda one: of(one, "short_among_long", "p99_ms"),
        {OURS: (0.4, 0.3)},
    ),
    (
        "resident memory under load",
        "MB",
        lambda one: mega(one.get("resident")),
        {OURS: (0.8, 0.8)},
    ),
]


def mega(size: float | None) -> float | None:
    """Bytes in MB."""
    return None if size is None else size / 1e6


def page(results: dict[str, Any], hour: dict[str, Any] | None = None) -> str:
    """The page. hour: figures of benchmarks/serving_memory.py."""
    measured, servers = results["measured"], results["servers"]
    good = {name: one for name, one in servers.items() if "error" not in one}
    threads = f", OMP_NUM_THREADS={measured['threads']}" if measured["threads"] else ""
    lines = [
        HEAD,
        f"{measured['date']}, commit {measured['commit']}, {measured['machine']}{threads}; {measured['seconds']:g} s "
        f"per scenario, {measured['overload_seconds']:g} s at 4 times the capacity; load average before the run "
        f"{measured['load']:.1f}.",
        "",
        "## Goals",
        "",
        "| figure | server | value | infinity-emb | goal | | FastAPI + sentence-transformers | goal | |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        *goal_lines(good),
        *own_goal_lines(good, results["library"]),
        "",
        "## Open loop",
        "",
        "Requests arrive at random moments (a Poisson process) at a multiple of the server's own capacity. *Rejected* "
        "are 429 and 503; *late* is the delay of the load generator, which is part of the times; *failed* are "
        "connections that ended or stayed silent for 60 s; *unsent* is what the generator, limited to 2,000 open "
        "requests, could not send.",
        "",
        "| server | load | requests | answered/s | p50 ms | p99 ms | rejected | their p99 | late p99 | failed | unsent "
        "| memory |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        *(line for name, one in good.items() for line in open_lines(name, one)),
        "",
        "## Other figures",
        "",
        "| server | ready after, s | memory at start, MB | 32 texts a request, texts/s | after overload, texts/s |",
        "| --- | --- | --- | --- | --- |",
        *(other_line(name, one) for name, one in good.items()),
        "",
        f"The library in one process (float32): {results['library']['one_p50_ms']:.2f} ms for one text (p50), "
        f"{results['library']['texts_per_second']:,.0f} texts/s in bulk.",
    ]
    rates = [
        f"{name} {one['short_among_long']['rate']:.0f}/s" for name, one in good.items() if "short_among_long" in one
    ]
    if rates:
        lines += [
            "",
            "Short texts among long ones arrive at 70% of each server's own capacity, so a faster server gets more "
            f"requests: {', '.join(rates)}.",
        ]
    equal = [
        f"{name} {one['short_at_equal_rate']['p99_ms']:.0f} ms"
        for name, one in good.items()
        if "short_at_equal_rate" in one
    ]
    if equal:
        lines += ["", f"At the same rate for all, 15 requests/s, the p99 of the short texts is: {', '.join(equal)}."]
    if hour:
        lines += ["", "## Memory over an hour", "", hour_text(hour)]
    missing = [name for name in (OURS, FAST, INFINITY, PLAIN) if name not in good]
    if missing:
        lines += ["", "## Not measured", ""]
        lines += [
            f"- {name}: {servers.get(name, {}).get('error', 'its environment was not given')}" for name in missing
        ]
    return "\n".join(lines) + "\n"


def hour_text(hour: dict[str, Any]) -> str:
    """What benchmarks/serving_memory.py found."""
    kinds = ", ".join(f"{number:,} {kind}" for kind, number in hour["kinds"].items())
    return (
        f"`python benchmarks/serving_memory.py`, {hour['measured']}: the built-in models in one process, "
        f"{hour['requests']:,} requests in {hour['minutes']:.0f} minutes, of which the server counted "
        f"{hour['counted_by_server']:,.0f}. Resident memory was {hour['first_mb']:,.0f} MB after a tenth of the time, "
        f"{hour['last_mb']:,.0f} MB at the end and {hour['most_mb']:,.0f} MB at most; a line through the samples after "
        f"that rises by {hour['growth_mb_an_hour']:.0f} MB an hour. Kinds of requests and their statuses: {kinds}."
    )


def goal_lines(servers: dict[str, dict[str, Any]]) -> list[str]:
    """One line for each goal and server of ours."""
    lines = []
    for name, unit, figure, goals in GOALS:
        for own, factors in goals.items():
            if own not in servers:
                continue
            value = figure(servers[own])
            cells = []
            for peer, factor in zip((INFINITY, PLAIN), factors, strict=True):
                other = figure(servers[peer]) if peer in servers else None
                cells += [number(other, unit), *goal(value, other, factor)]
            lines.append(f"| {name} | {own} | {number(value, unit)} | {' | '.join(cells)} |")
    return lines


def goal(value: float | None, other: float | None, factor: float) -> tuple[str, str]:
    """The bound in words, and whether it is met."""
    sign = "≥" if factor > 1 else "≤"
    if value is None or not other:
        return f"{sign} {factor:g} ×", "not measured"
    ratio = value / other
    is_met = ratio >= factor if factor > 1 else ratio <= factor
    return f"{sign} {factor:g} ×", f"{ratio:.2f} ×: {'met' if is_met else '**not met**'}"


def own_goal_lines(servers: dict[str, dict[str, Any]], library: dict[str, float]) -> list[str]:
    """The goals that compare the server with the library, and its own bounds."""
    one = servers.get(OURS)
    if one is None:
        return []
    overload, peak = one.get("open_4", {}), one["clients"]["answered_per_second"]
    lone, batches = of(one, "lone", "p50_ms"), of(one, "batches", "answered_per_second")
    answered, late = overload.get("answered_per_second"), overload.get("loop_lag_p99_ms_below")
    failed = overload["failed"] + overload["other"] if overload else None
    share = batches and batches * 32 / library["texts_per_second"]
    above = None if lone is None else lone - library["one_p50_ms"]
    own: list[tuple[str, float | None, str, str, float, bool]] = [
        ("one client, p50, above the library", above, "ms", "≤ 2 ms", 2, False),
        ("requests of 32 texts, of the library in bulk", share, "×", "≥ 0.85 ×", 0.85, True),
        ("start to ready", one["ready_seconds"], "s", "≤ 5 s", 5, False),
        ("4 × capacity: answered, of the peak", answered and answered / peak, "×", "≥ 0.9 ×", 0.9, True),
        ("4 × capacity: p99 of the answered", overload.get("p99_ms"), "ms", "≤ 2 × 5 s and a pack", 10_500, False),
        ("4 × capacity: rejections, p99", overload.get("rejected_p99_ms"), "ms", "< 50 ms", 50, False),
        ("4 × capacity: event loop late, p99 at most", late, "ms", "≤ 10 ms", 10, False),
        ("4 × capacity: growth of memory", mega(overload.get("grown_bytes")), "MB", "< 50 MB", 50, False),
        ("4 × capacity: failed connections", failed, "", "0", 0, False),
    ]
    lines = []
    for name, value, unit, bound, limit, is_lower in own:
        if value is None:
            lines.append(f"| {name} | {OURS} | none | | {bound} | not measured | | | |")
            continue
        is_met = value >= limit if is_lower else value <= limit
        lines.append(
            f"| {name} | {OURS} | {number(value, unit)} | | {bound} | {'met' if is_met else '**not met**'} | | | |"
        )
    return lines


def open_lines(name: str, one: dict[str, Any]) -> list[str]:
    """One line for each rate."""
    lines = []
    for key, found in one.items():
        if not key.startswith("open_"):
            continue
        cells = [f"{found['requests']:,}", f"{found['answered_per_second']:,.0f}"]
        cells += [number(found["p50_ms"], ""), number(found["p99_ms"], ""), f"{found['rejected']:,}"]
        cells += [number(found["rejected_p99_ms"], ""), number(found["late_p99_ms"], "")]
        cells += [f"{found['failed']:,}", f"{found['unsent']:,}"]
        cells += [f"{found['grown_bytes'] / 1e6:+,.0f} MB"]
        lines.append(f"| {name} | {key.removeprefix('open_')} × | {' | '.join(cells)} |")
    return lines


def other_line(name: str, one: dict[str, Any]) -> str:
    """Start, memory, batches, recovery."""
    batches = of(one, "batches", "answered_per_second")
    cells = [f"{one['ready_seconds']:.1f}", f"{one['resident_at_start'] / 1e6:,.0f}"]
    cells += [number(batches and batches * 32, ""), number(of(one, "afterwards", "answered_per_second"), "")]
    return f"| {name} | {' | '.join(cells)} |"


def number(value: float | None, unit: str) -> str:
    """A value with a unit, as exact as it was measured."""
    if value is None:
        return "none"
    shown = (
        f"{value:,.0f}"
        if abs(value) >= 100 or value == int(value)
        else f"{value:.2f}"
        if abs(value) < 10
        else f"{value:.1f}"
    )
    return f"{shown} {unit}".strip()
