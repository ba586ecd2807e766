"""Results of lessons as one self-contained page: text, pictures, numbers beside the slide's, question, answer, code."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.plural import plural
from ..report import Block, Collapsible, Figure, Health, KeyFigures, Paragraph, Report, Section, SourceCode, Table
from .lesson import Result


def report(results: Sequence[Result]) -> Report:
    """One page of all: by parts where there are several lessons."""
    checks = [check for result in results for check in result.checks]
    failed = [result for result in results if not result.ok]
    off = [check for check in checks if check.note]
    if failed:
        names = ", ".join(result.lesson.title for result in failed)
        health = Health("bad", [f"Not as it must be: {names}."], "Some numbers are wrong")
    else:
        health = Health(
            "good", [f"{plural(len(checks), 'number or law', 'numbers and laws')} computed just now."], "All hold"
        )
    if len(results) == 1:
        only = results[0]
        return Report(f"Lesson {only.lesson.name}", only.lesson.title, health, [*_told(only), *_inside(only)])
    figures = [
        Figure("lessons", len(results)),
        Figure("numbers and laws", len(checks), note="computed by the code that trains and serves"),
        Figure("that hold", sum(check.ok for check in checks)),
        Figure("where the slide is off", len(off), note="each is named, with the right value"),
        Figure("time", round(sum(result.seconds for result in results), 1), "s"),
    ]
    parts: dict[str, list[Block]] = {}
    for result in results:
        section = Section(result.lesson.title, [*_inside(result)], lead=result.lesson.about)
        parts.setdefault(result.lesson.part, []).append(section)
    sections = [Section(part, inside) for part, inside in parts.items()]
    return Report(
        "Lessons",
        "The worked numbers of five lectures, computed",
        health,
        [KeyFigures(figures), *sections, Section("Where slides are off", [_off(results)])],
    )


def _told(result: Result) -> list[Block]:
    return [Paragraph(result.lesson.about)]


def _inside(result: Result) -> list[Block]:
    lesson = result.lesson
    note = f"{lesson.lecture}, “{lesson.topic}”. maskwright lessons run {lesson.name}"
    rows: list[Sequence[str]] = [
        (check.what, check.slide, check.computed, _verdict(check.ok), check.note) for check in result.checks
    ]
    columns = ["", "expected" if result.is_own else "the slide", "computed", "", "where they differ"]
    if not any(check.note for check in result.checks):
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    blocks: list[Block] = [*result.pictures, Table(columns, rows, note=note, right=())]
    if result.error is not None:
        blocks.append(Paragraph(f"It stopped: {result.error}"))
    answer = [Paragraph(result.answer), *result.answer_pictures] if result.answer else []
    blocks.append(Collapsible(lesson.question, "The answer, by experiment", answer))
    return [*blocks, SourceCode([(code.name, code.text) for code in result.code], title="The code that computes it")]


def _verdict(ok: bool) -> str:
    return "✓" if ok else "✗ wrong"


def _off(results: Sequence[Result]) -> Table:
    rows = [
        (result.lesson.title, check.what, check.slide, check.computed, check.note)
        for result in results
        for check in result.checks
        if check.note
    ]
    return Table(["lesson", "", "the slide", "computed", "why"], rows, right=())
