"""`maskwright lessons`: the worked numbers of the lectures, computed here and compared with the slides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import typer

from ..core import progress
from ..core.config import option
from ..core.errors import ConfigError
from .common import Part, Result, Table
from .settings import takes_settings

if TYPE_CHECKING:
    from ..lessons.lesson import Lesson
    from ..lessons.lesson import Result as LessonResult
    from ..lessons.recorder import Check

ALL = "all"


@dataclass(frozen=True, kw_only=True)
class LessonSettings:
    """Settings of `maskwright lessons`."""

    COMMAND: ClassVar[str] = "lessons"

    name: tuple[str, ...] = option(
        (), "Lesson names, or all; without them the lessons are listed.", is_argument=True, metavar="NAME | all"
    )
    output: Path | None = option(None, "Write an HTML page with pictures, code and answers.", short="-o")
    values: tuple[str, ...] = option(
        (),
        "Change an input of the lesson: a number, a text, or rows of numbers separated by ';', or a text file of them. "
        "`maskwright lessons` names the inputs. Repeatable.",
        flag="--set",
        metavar="NAME=VALUE",
    )


@takes_settings(LessonSettings)
def lessons(settings: LessonSettings) -> Iterator[Result]:
    """List the lessons, or run some: each number of a slide next to the computed one.

    The exit code is 1 if any differs.

    Most lessons have inputs: with --set NAME=VALUE they compute your numbers or text instead of the slide's.

    Examples:

        maskwright lessons

        maskwright lessons bpe-merges

        maskwright lessons all -o lessons.html

        maskwright lessons warm-up --set warmup=1000

        maskwright lessons weighted-sum --set text=机器翻译 --set matrix="2 2 0 0"
    """
    from ..lessons import catalog
    from ..lessons.running import run_all

    if not settings.name:
        yield _listed(list(catalog.lessons().values()))
        return
    names = list(catalog.lessons()) if settings.name == (ALL,) else [catalog.lesson(one).name for one in settings.name]
    values, output = _pairs(settings.values), settings.output
    with progress.track("lessons", len(names), "lessons") as bar:
        results = run_all(names, lambda number, running: bar.update(number - 1, running), values, files=True)
    if output is not None:
        from ..lessons.page import report
        from ..report import write_report

        write_report(output, report(results))
    is_ok = all(result.ok for result in results)
    value = {"ok": is_ok, "lessons": [result.to_json() for result in results]}
    yield value, _one(results[0]) if len(results) == 1 else _all(results)
    if output is not None:
        progress.note(f"The page: {output}")
    if not is_ok:
        raise typer.Exit(1)


def _listed(found: list[Lesson]) -> Result:
    fields = ("name", "part", "lecture", "topic", "title")
    value = [
        {field: getattr(one, field) for field in fields} | {"inputs": [own.to_json() for own in one.inputs]}
        for one in found
    ]
    rows = [(one.name, one.part, one.title, ", ".join(own.name for own in one.inputs)) for one in found]
    return value, (
        Table(["name", "part", "what", "inputs"], rows),
        "Run one: maskwright lessons NAME; all of them as a page: maskwright lessons all -o lessons.html",
    )


def _pairs(given: Sequence[str]) -> dict[str, str]:
    pairs = [one.partition("=") for one in given]
    for name, equals, _ in pairs:
        if not equals or not name:
            raise ConfigError(f"--set expects NAME=VALUE, not '{name}'.")
    return {name.replace("-", "_"): value for name, _, value in pairs}


def _one(result: LessonResult) -> Iterator[Part]:
    from ..lessons.page import OWN
    from ..report import Table as Block

    lesson = result.lesson
    yield f"{lesson.title}\n{lesson.lecture}, “{lesson.topic}”\n\n{lesson.about}"
    if result.is_own:
        yield f"\n{OWN}"
    rows = [(check.what, check.slide, check.computed, _verdict(check)) for check in result.checks]
    yield Table(["", "expected" if result.is_own else "slide", "computed", "ok"], rows)
    if result.is_own:
        for block in result.pictures:
            if isinstance(block, Block):
                yield Table(block.columns, block.rows, right=block.right or ())
    yield from (f"{check.what}: {check.note}" for check in result.checks if check.note)
    yield _stopped(result)
    question = "" if result.is_own else f"Question: {lesson.question}\nAnswer, by experiment: "
    yield f"\n{question}{result.answer}"
    yield "\nComputed by: " + ", ".join(code.name for code in result.code)


def _verdict(check: Check) -> str:
    return ("yes" if check.ok else "NO") if check.slide else ""


def _stopped(result: LessonResult) -> str | None:
    return None if result.error is None else f"{result.lesson.name} stopped: {result.error}"


def _all(results: list[LessonResult]) -> Iterator[Part]:
    rows = []
    for result in results:
        for number, check in enumerate(result.checks):
            name = ("", "") if number else (result.lesson.name, result.lesson.short_lecture)
            rows.append((*name, check.what, check.slide, check.computed, _verdict(check)))
    yield Table(["lesson", "lecture", "topic", "slide's value", "computed value", "ok"], rows)
    for result in results:
        yield from (f"{result.lesson.name}, {check.what}: {check.note}" for check in result.checks if check.note)
        yield _stopped(result)
    good, checks = sum(result.ok for result in results), sum(len(result.checks) for result in results)
    seconds = sum(result.seconds for result in results)
    yield f"{good} of {len(results)} lessons hold: {checks} numbers and laws, {seconds:.1f} s."
