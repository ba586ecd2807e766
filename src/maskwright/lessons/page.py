"""Results of lessons as one self-contained page: text, pictures, numbers and the slide's, question, answer, code."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.util import plural
from ..report import Block, Collapsible, Figure, Health, KeyFigures, Paragraph, Report, Section, SourceCode, Table
from .lesson import Result
from .recorder import Check

OWN = "Computed with your values: the slide's numbers do not apply, only what holds for any value is checked."


def report(results: Sequence[Result]) -> Report:
    """Build one page; several lessons are grouped by part."""
    checks = [check for result in results for check in result.checks if check.slide]
    failed = [result for result in results if not result.ok]
    off = [check for check in checks if check.note]
    if failed:
        names = ", ".join(result.lesson.title for result in failed)
        health = Health("bad", [f"Different results: {names}."], "Some numbers are wrong")
    else:
        health = Health("good", [f"{plural(len(checks), 'check', 'checks')} computed."], "All checks pass")
    if len(results) == 1:
        only = results[0]
        blocks = [Paragraph(only.lesson.about), *_inside(only)]
        return Report(f"Lesson {only.lesson.name}", only.lesson.title, health, blocks)
    figures = [
        Figure("lessons", len(results)),
        Figure("checks", len(checks), note="computed by the code for training and inference"),
        Figure("passed", sum(check.ok for check in checks)),
        Figure("differences to the slides", len(off), note="each with the correct value"),
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
        [KeyFigures(figures), *sections, Section("Differences to the slides", [_off(results)])],
    )


def _inside(result: Result) -> list[Block]:
    lesson = result.lesson
    note = f"{lesson.lecture}, “{lesson.topic}”. {result.command}"
    rows: list[Sequence[str]] = [
        (check.what, check.slide, check.computed, _verdict(check), check.note) for check in result.checks
    ]
    columns = ["", "expected" if result.is_own else "the slide", "computed", "", "difference"]
    if not any(check.note for check in result.checks):
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    blocks: list[Block] = [*_changed(result), *result.pictures, Table(columns, rows, note=note, right=())]
    if result.error is not None:
        blocks.append(Paragraph(f"Error: {result.error}"))
    answer = [Paragraph(result.answer), *result.answer_pictures] if result.answer else []
    blocks.append(Collapsible(lesson.question, "Answer by experiment", answer))
    return [*blocks, SourceCode([(code.name, code.text) for code in result.code], title="Source code")]


def _changed(result: Result) -> list[Block]:
    """The values that are not the slide's."""
    if not result.is_own:
        return []
    pairs = [(one, result.values[one.name]) for one in result.lesson.inputs]
    rows = [
        (one.label, one.written(one.default) or "–", one.written(value)) for one, value in pairs if value != one.default
    ]
    return [Paragraph(OWN), Table(["input", "the slide", "yours"], rows, right=())]


def _verdict(check: Check) -> str:
    if not check.slide:
        return ""
    return "✓" if check.ok else "✗ wrong"


def _off(results: Sequence[Result]) -> Table:
    rows = [
        (result.lesson.title, check.what, check.slide, check.computed, check.note)
        for result in results
        for check in result.checks
        if check.note
    ]
    return Table(["lesson", "", "the slide", "computed", "why"], rows, right=())
