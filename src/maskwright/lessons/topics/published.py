"""Tables of papers, recomputed where they can be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lesson import APPLICATIONS, SESSION, Lesson

if TYPE_CHECKING:
    from ..sheet import Sheet

PART = "Tasks"


def _glue(sheet: Sheet) -> None:
    from ...tasks.published import glue_average, published, published_table
    from ...train.report import Table

    rows = []
    for table in published("glue"):
        for row in table.rows:
            mean = glue_average(row.values)
            sheet.near(f"{row.name}, {table.label}", row.values["Average"], mean, 0.1, digits=2)
            rows.append((table.label, row.name, row.values["QNLI"], row.values["Average"], round(mean, 3)))
    first, second = (published_table("glue", label) for label in ("first version", "second version"))
    changed = [row.name for row in first.rows if row.values["QNLI"] != second.row(row.name).values["QNLI"]]
    sheet.holds(
        "QNLI in two lectures",
        "79.9 88.1 90.1 91.1; 79.8 87.4 90.5 92.7",
        f"differs in {len(changed)} rows",
        len(changed) == 4,
        "two versions of the paper's table; each average belongs to its own row, and both are kept",
    )
    size = first.column("MNLI-m").train_size
    sheet.off("pairs of MNLI", "433k; 392k", 392_000, size, "433,000 is the whole corpus, 392,000 its training part")
    sheet.show(Table(["version", "system", "QNLI", "printed average", "mean of nine"], rows))
    bert = first.row("BERT-Large").values
    eight = sum(bert[name] for name in bert if name not in ("Average", "MNLI-mm")) / 8
    sheet.answer(
        f"With MNLI counted once, BERT-Large would have {eight:.1f} instead of {bert['Average']}. The printed "
        "averages are means of nine numbers, matched and mismatched MNLI apart."
    )


def _elmo(sheet: Sheet) -> None:
    from ...tasks.published import published_table, relative_error_reduction
    from ...train.report import Bar, Bars

    rows = {row.name: row.values for row in published_table("elmo", "paper").rows}
    squad = rows["SQuAD"]
    sheet.near("gain on SQuAD", 4.7, squad["ELMo + baseline"] - squad["Baseline"], 1e-6, digits=1)
    reduced = relative_error_reduction(squad["Baseline"], squad["ELMo + baseline"])
    sheet.near("relative, %", 24.9, 100 * reduced, 0.05, digits=2)
    shares = {name: relative_error_reduction(row["Baseline"], row["ELMo + baseline"]) for name, row in rows.items()}
    sheet.holds(
        "every task gains", "all", f"{min(shares.values()):.0%} to {max(shares.values()):.0%}", min(shares.values()) > 0
    )
    sheet.show(
        Bars(
            [Bar(name, one, f"{one:.1%}") for name, one in shares.items()],
            title="Share of the baseline's error that ELMo removes",
        )
    )
    snli = rows["SNLI"]
    sheet.answer(
        f"Because what is left counts: SNLI gains {snli['ELMo + baseline'] - snli['Baseline']:.1f} points, which is "
        f"{shares['SNLI']:.0%} of its errors; SQuAD's 4.7 points are {shares['SQuAD']:.0%}."
    )


LESSONS = (
    Lesson(
        "glue-averages",
        PART,
        APPLICATIONS,
        "GLUE results",
        "Two tables of one paper",
        "Two lectures show different numbers for the same systems. Both are right: they are from two versions of the "
        "paper, and each average fits its row.",
        ("tasks.published:glue_average", "tasks.published:published"),
        "How is the average taken?",
        _glue,
    ),
    Lesson(
        "elmo-gain",
        PART,
        SESSION,
        "ELMo results",
        "4.7 points are 24.9 per cent",
        "A gain can be given in points or as the share of the errors that went away.",
        ("tasks.published:relative_error_reduction",),
        "Why print the relative gain at all?",
        _elmo,
    ),
)
