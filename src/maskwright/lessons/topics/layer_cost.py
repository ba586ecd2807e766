"""What a layer costs as texts grow: the published table, its operations, and the time they take here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lesson import SESSION, Lesson

if TYPE_CHECKING:
    from ..recorder import LessonRecorder

PART = "Sizes and costs"
LENGTHS = (128, 512, 1024, 2048, 4096)


def _complexity(record: LessonRecorder) -> None:
    from ...report import Chart, Curves, Series, Table
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
            f"{kind.name}: cost, steps, longest way",
            ", ".join(slides[kind.name]),
            f"{kind.cost}, {kind.sequential}, {kind.path}",
        )
        fitted = power(LENGTHS, [kind.flops(n, 64, 3, 64) for n in LENGTHS])
        record.near(f"{kind.name}: power of n in its operations", float(kind.power), fitted, digits=2)
        rows.append((kind.name, f"O({kind.cost})", f"O({kind.sequential})", f"O({kind.path})"))
    record.show(Table(["layer", "cost", "steps in a row", "longest way"], rows))
    found = {one.kind.name: one for one in measure(LENGTHS, width=32, window=64)}
    attention, window = found["self-attention"], found["restricted attention"]
    record.holds(
        "time measured here: power of n",
        "attention 2, in windows 1",
        f"{attention.fitted:.2f}, {window.fitted:.2f}",
        attention.fitted > window.fitted + 0.3,
    )
    lines = [
        Series(name, list(LENGTHS), [1000 * one for one in own.seconds], smooth=False) for name, own in found.items()
    ]
    record.show(Curves([Chart("Milliseconds for one layer, width 32", lines, x_label="tokens", log_y=True)], title=""))
    cross = next((n for n in LENGTHS if KINDS[0].flops(n, 768, 3, 64) > KINDS[1].flops(n, 768, 3, 64)), None)
    record.answer(
        f"Once the text is longer than a vector: with d = 768, a length of {cross:,} is the first of these at which "
        f"n² d is more than n d². But the recurrent layer has to take {LENGTHS[-1]:,} steps one after the other, "
        "attention takes one."
    )


LESSONS = (
    Lesson(
        "complexity",
        PART,
        SESSION,
        "Complexity",
        "What a layer costs as texts grow",
        "Attention compares every token with every other; a recurrent layer takes one step for each; a convolution "
        "and a window look at neighbors. The table of the paper, its operations, and the time they take here.",
        ("speed.complexity:measure", "speed.complexity:power"),
        "When is self-attention dearer than a recurrent layer?",
        _complexity,
    ),
)
