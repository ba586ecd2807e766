"""The cost of a layer by text length: the published table, its operations, and measured times."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..inputs import integer
from ..lesson import SESSION, Lesson

if TYPE_CHECKING:
    from ..recorder import LessonRecorder

PART = "Sizes and costs"
LENGTHS = (128, 512, 1024, 2048, 4096)


def _complexity(record: LessonRecorder, width: int, length: int) -> None:
    from ...report import Bar, Bars, Chart, Curves, Series, Table
    from ...speed.complexity import KINDS, measure, power

    slides = {
        "self-attention": ("n^2 d", "1", "1"),
        "recurrent": ("n d^2", "n", "n"),
        "convolutional": ("k n d^2", "1", "log_k n"),
        "restricted attention": ("r n d", "1", "n / r"),
    }
    rows = []
    for kind in KINDS:
        record.equal(
            f"{kind.name}: cost, steps, maximum path length",
            ", ".join(slides[kind.name]),
            f"{kind.cost}, {kind.sequential}, {kind.path}",
        )
        fitted = power(LENGTHS, [kind.flops(n, 64, 3, 64) for n in LENGTHS])
        record.near(f"{kind.name}: exponent of n in its operations", float(kind.power), fitted, digits=2)
        rows.append((kind.name, f"O({kind.cost})", f"O({kind.sequential})", f"O({kind.path})"))
    record.show(Table(["layer", "cost", "sequential steps", "maximum path length"], rows))
    operations = {kind.name: kind.flops(length, width, 3, 64) for kind in KINDS}
    ratio = operations["self-attention"] / operations["recurrent"]
    record.near("operations of self-attention relative to recurrent: n / d", length / width, ratio, digits=3, law=True)
    bars = [Bar(name, count, f"{count / 1e6:,.1f} M") for name, count in operations.items()]
    record.show(Bars(bars, title=f"Operations for {length:,} tokens of width {width:,}"))
    cross = next(
        n for n in range(1, 2 * width + 2) if KINDS[0].flops(n, width, 3, 64) > KINDS[1].flops(n, width, 3, 64)
    )
    record.answer(
        f"If the text is longer than the hidden size: with d = {width}, {cross:,} is the first length at which n² d "
        f"exceeds n d². But the recurrent layer needs {length:,} sequential steps for {length:,} tokens, attention one."
    )
    if record.is_own:
        return
    found = {one.kind.name: one for one in measure(LENGTHS, width=32, window=64)}
    attention, window = found["self-attention"], found["restricted attention"]
    lines = [
        Series(name, list(LENGTHS), [1000 * one for one in own.seconds], smooth=False) for name, own in found.items()
    ]
    # No check of the times: they depend on what else the machine computes.
    exponents = f"exponent of n {attention.fitted:.1f}, in windows {window.fitted:.1f}"
    title = f"Milliseconds for one layer, width 32; {exponents}"
    record.show(Curves([Chart(title, lines, x_label="tokens", log_y=True)], title=""))


LESSONS = (
    Lesson(
        "complexity",
        PART,
        SESSION,
        "Complexity",
        "The cost of a layer by text length",
        "Attention compares every token with every other; a recurrent layer takes one step per token; convolutions "
        "and windows use neighbors. The table of the paper, its operations, and measured times.",
        ("speed.complexity:measure", "speed.complexity:power"),
        "When is self-attention more expensive than a recurrent layer?",
        _complexity,
        (
            integer("width", "Hidden size d", 768, 16, 4096, 16),
            integer("length", "Tokens n of a text", 4096, 16, 16_384, 16),
        ),
    ),
)
