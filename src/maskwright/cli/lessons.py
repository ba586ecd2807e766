"""`maskwright lessons`: the worked numbers of the lectures, computed here and compared with the slides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import typer

from ..core import progress
from ..core.config import option
from ..core.errors import ConfigError
from .common import DebugFlag, JsonFlag, QuietFlag, print_json, print_table, print_text
from .groups import make_group
from .settings import takes_settings

if TYPE_CHECKING:
    from ..lessons.lesson import Result
    from ..lessons.recorder import Check

ALL = "all"


@dataclass(frozen=True, kw_only=True)
class LessonSettings:
    """Settings of `maskwright lessons run`."""

    COMMAND: ClassVar[str] = "lessons run"

    name: tuple[str, ...] = option(help="Lesson names, or all.", is_argument=True, metavar="NAME… | all")
    output: Path | None = option(None, "Write an HTML page with pictures, code and answers.", short="-o")
    values: tuple[str, ...] = option(
        (),
        "Change an input of the lesson: a number, a text, or rows of numbers separated by ';', or a text file of them. "
        "`maskwright lessons list` names the inputs. Repeatable.",
        flag="--set",
        metavar="NAME=VALUE",
    )


def list_lessons(json: JsonFlag = False, quiet: QuietFlag = False, debug: DebugFlag = False) -> None:
    """List the lessons.

    Examples:

        maskwright lessons list

        maskwright lessons list --json
    """
    from ..lessons.catalog import lessons

    if json:
        fields = ("name", "part", "lecture", "topic", "title")
        print_json(
            [
                {field: getattr(lesson, field) for field in fields}
                | {"inputs": [one.to_json() for one in lesson.inputs]}
                for lesson in lessons().values()
            ]
        )
        return
    print_table(
        ["name", "part", "what", "inputs"],
        [(one.name, one.part, one.title, ", ".join(own.name for own in one.inputs)) for one in lessons().values()],
    )
    print_text(
        "Run one: maskwright lessons run NAME; all of them as a page: maskwright lessons run all -o lessons.html"
    )


@takes_settings(LessonSettings)
def run(settings: LessonSettings, json: JsonFlag = False) -> None:
    """Run lessons: each number of a slide next to the computed one. The exit code is 1 if any differs.

    Most lessons have inputs: with --set NAME=VALUE they compute your numbers or text instead of the slide's.

    Examples:

        maskwright lessons run bpe-merges

        maskwright lessons run all -o lessons.html

        maskwright lessons run all --json

        maskwright lessons run warm-up --set warmup=1000

        maskwright lessons run saturation --set text="how are you" --set matrix="89 31 67; 31 91 54; 67 54 92"

        maskwright lessons run weighted-sum --set text=机器翻译 --set matrix="2 2 0 0"
    """
    from ..lessons.catalog import lesson, lessons
    from ..lessons.running import run_all

    names = list(lessons()) if settings.name == (ALL,) else [lesson(one).name for one in settings.name]
    values, output = _pairs(settings.values), settings.output
    with progress.track("lessons", len(names), "lessons") as bar:
        results = run_all(names, lambda number, running: bar.update(number - 1, running), values, files=True)
    if output is not None:
        from ..lessons.page import report
        from ..report import write_report

        write_report(output, report(results))
    if json:
        print_json({"ok": all(result.ok for result in results), "lessons": [result.to_json() for result in results]})
    elif len(results) == 1:
        _show_one(results[0])
    else:
        _show_all(results)
    if output is not None:
        progress.note(f"The page: {output}")
    if not all(result.ok for result in results):
        raise typer.Exit(1)


def _pairs(given: Sequence[str]) -> dict[str, str]:
    """Split NAME=VALUE."""
    pairs = [one.partition("=") for one in given]
    for name, equals, _ in pairs:
        if not equals or not name:
            raise ConfigError(f"--set expects NAME=VALUE, not '{name}'.")
    return {name.replace("-", "_"): value for name, _, value in pairs}


def _show_one(result: Result) -> None:
    from ..lessons.page import OWN

    lesson = result.lesson
    print_text(f"{lesson.title}\n{lesson.lecture}, “{lesson.topic}”\n\n{lesson.about}")
    if result.is_own:
        print_text(f"\n{OWN}")
    rows = [(check.what, check.slide, check.computed, _verdict(check)) for check in result.checks]
    print_table(["", "expected" if result.is_own else "slide", "computed", "ok"], rows)
    if result.is_own:
        _show_tables(result)
    for check in result.checks:
        if check.note:
            print_text(f"{check.what}: {check.note}")
    _show_error(result)
    print_text(
        f"\n{result.answer}"
        if result.is_own
        else f"\nQuestion: {lesson.question}\nAnswer, by experiment: {result.answer}"
    )
    print_text("\nComputed by: " + ", ".join(code.name for code in result.code))


def _verdict(check: Check) -> str:
    return ("yes" if check.ok else "NO") if check.slide else ""


def _show_tables(result: Result) -> None:
    """Tables of a lesson on your own input, for a terminal."""
    from ..report import Table

    for block in result.pictures:
        if isinstance(block, Table):
            print_table(block.columns, block.rows, right=block.right or ())


def _show_all(results: list[Result]) -> None:
    from ..lessons.lesson import LECTURES

    rows = []
    for result in results:
        for number, check in enumerate(result.checks):
            name = ("", "") if number else (result.lesson.name, LECTURES[result.lesson.lecture])
            rows.append((*name, check.what, check.slide, check.computed, _verdict(check)))
    print_table(["lesson", "lecture", "topic", "slide's value", "computed value", "ok"], rows)
    for result in results:
        for check in result.checks:
            if check.note:
                print_text(f"{result.lesson.name}, {check.what}: {check.note}")
        _show_error(result)
    good = sum(result.ok for result in results)
    seconds = sum(result.seconds for result in results)
    checks = sum(len(result.checks) for result in results)
    print_text(f"{good} of {len(results)} lessons hold: {checks} numbers and laws, {seconds:.1f} s.")


def _show_error(result: Result) -> None:
    if result.error is not None:
        print_text(f"{result.lesson.name} stopped: {result.error}")


app = make_group(
    "Run the lectures as lessons: each worked number is computed and checked.", {"list": list_lessons, "run": run}
)
