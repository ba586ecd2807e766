"""Tables of papers, recomputed where possible."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..inputs import number
from ..lesson import APPLICATIONS, SESSION, Lesson

if TYPE_CHECKING:
    from ..recorder import LessonRecorder

PART = "Tasks"
BASELINE, IMPROVED = 81.1, 85.8  # SQuAD F1, as in the published table
PRINTED = 0.05 + 1e-9  # largest difference of a mean to its value rounded to one decimal


def _glue(record: LessonRecorder) -> None:
    from ...report import Table
    from ...tasks.evaluation.published import glue_average, published, published_table

    rows = []
    for table in published("glue"):
        for row in table.rows:
            mean, printed = glue_average(row.values), row.values["Average"]
            name = f"{row.name}, {table.label}"
            if row.note is None:
                record.near(name, printed, mean, PRINTED, digits=2)
            else:
                note = "the paper averaged before it rounded the nine numbers"
                is_off = PRINTED < abs(mean - printed) < 2 * PRINTED
                record.holds(name, f"{printed:.2f}", f"{mean:.2f}", is_off, note)
            rows.append((table.label, row.name, row.values["QNLI"], row.values["Average"], round(mean, 3)))
    first, second = (published_table("glue", label) for label in ("first version", "second version"))
    changed = [row.name for row in first.rows if row.values["QNLI"] != second.row(row.name).values["QNLI"]]
    record.holds(
        "QNLI in two lectures",
        "79.9 88.1 90.1 91.1; 79.8 87.4 90.5 92.7",
        f"differs in {len(changed)} rows",
        len(changed) == 4,
        "two versions of the paper's table; each average belongs to its own row, and both are included",
    )
    size = first.column("MNLI-m").train_size
    record.off("pairs of MNLI", "433k; 392k", 392_000, size, "433,000 is the whole corpus, 392,000 its training split")
    record.show(Table(["version", "system", "QNLI", "printed average", "mean of nine"], rows))
    bert = first.row("BERT-Large").values
    eight = sum(bert[name] for name in bert if name not in ("Average", "MNLI-mm")) / 8
    record.answer(
        "As the mean of nine numbers, with matched and mismatched MNLI counted separately. With MNLI counted once, "
        f"BERT-Large would have {eight:.1f} instead of {bert['Average']}."
    )


def _elmo(record: LessonRecorder, baseline: float, improved: float) -> None:
    from ...report import Bar, Bars
    from ...tasks.evaluation.published import published_table, relative_error_reduction

    rows = {row.name: row.values for row in published_table("elmo", "paper").rows}
    squad = rows["SQuAD"]
    record.equal("SQuAD: baseline, with ELMo", (BASELINE, IMPROVED), (squad["Baseline"], squad["ELMo + baseline"]))
    record.near("gain on SQuAD", 4.7, improved - baseline, digits=1)
    reduced = relative_error_reduction(baseline, improved)
    record.near("relative, %", 24.9, 100 * reduced, 0.05, digits=2)
    by_hand = 100 * (improved - baseline) / (100 - baseline)
    record.near("relative, by hand: gain / (100 − baseline), %", by_hand, 100 * reduced, digits=2, law=True)
    shares = {name: relative_error_reduction(row["Baseline"], row["ELMo + baseline"]) for name, row in rows.items()}
    record.holds(
        "every task gains", "all", f"{min(shares.values()):.0%} to {max(shares.values()):.0%}", min(shares.values()) > 0
    )
    record.show(
        Bars(
            [Bar(name, one, f"{one:.1%}") for name, one in shares.items()],
            title="Relative error reduction by ELMo",
        )
    )
    snli = rows["SNLI"]
    record.answer(
        f"Because the remaining errors differ: SNLI gains {snli['ELMo + baseline'] - snli['Baseline']:.1f} points, "
        f"{shares['SNLI']:.0%} of its errors; {improved - baseline:.1f} points from {baseline:g} to {improved:g} are "
        f"{reduced:.0%}."
    )


LESSONS = (
    Lesson(
        "glue-averages",
        PART,
        APPLICATIONS,
        "GLUE results",
        "Two tables of one paper",
        "Two lectures show different numbers for the same systems. Both are correct: they come from two versions of "
        "the paper, and each average agrees with its row.",
        ("tasks.evaluation.published:glue_average", "tasks.evaluation.published:published"),
        "How is the average computed?",
        _glue,
    ),
    Lesson(
        "elmo-gain",
        PART,
        SESSION,
        "ELMo results",
        "4.7 points are 24.9 percent",
        "A gain can be reported in points or as relative error reduction.",
        ("tasks.evaluation.published:relative_error_reduction",),
        "Why report the relative gain?",
        _elmo,
        (
            number("baseline", "Score of the baseline", BASELINE, 0, 99.9),
            number("improved", "Score of the better system", IMPROVED, 0, 100),
        ),
    ),
)
