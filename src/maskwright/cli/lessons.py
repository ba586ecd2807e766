"""`maskwright lessons`: the worked numbers of the lectures, computed here and compared with the slides."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..core import progress
from .common import DebugFlag, JsonFlag, QuietFlag, print_json, print_table, print_text

if TYPE_CHECKING:
    from ..lessons.lesson import Result

app = typer.Typer(
    help="The lectures as running lessons: every worked number computed and checked.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)

ALL = "all"


@app.command("list")
def list_lessons(json: JsonFlag = False, quiet: QuietFlag = False, debug: DebugFlag = False) -> None:
    """List the lessons.

    Examples:

        maskwright lessons list

        maskwright lessons list --json
    """
    from ..lessons.catalogue import lessons

    if json:
        fields = ("name", "part", "lecture", "topic", "title")
        print_json([{field: getattr(lesson, field) for field in fields} for lesson in lessons().values()])
        return
    print_table(["name", "part", "what"], [(one.name, one.part, one.title) for one in lessons().values()])
    print_text(
        "Run one: maskwright lessons run NAME; all of them as a page: maskwright lessons run all -o lessons.html"
    )


@app.command()
def run(
    name: Annotated[list[str], typer.Argument(help="Names of lessons, or all.", metavar="NAME… | all")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write a page with pictures, code and answers here.")
    ] = None,
    json: JsonFlag = False,
    quiet: QuietFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Run lessons: each number of a slide beside the computed one. Exit code 1 when one does not hold.

    Examples:

        maskwright lessons run bpe-merges

        maskwright lessons run all -o lessons.html

        maskwright lessons run all --json
    """
    from ..lessons.catalogue import lesson, lessons
    from ..lessons.running import run_all

    names = list(lessons()) if name == [ALL] else [lesson(one).name for one in name]
    with progress.track("lessons", len(names), "lessons") as bar:
        results = run_all(names, lambda number, running: bar.update(number - 1, running))
    if output is not None:
        from ..lessons.page import report
        from ..train.report import write_report

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


def _show_one(result: Result) -> None:
    lesson = result.lesson
    print_text(f"{lesson.title}\n{lesson.lecture}, “{lesson.topic}”\n\n{lesson.about}")
    rows = [(check.what, check.slide, check.computed, "yes" if check.ok else "NO") for check in result.checks]
    print_table(["", "slide", "computed", "ok"], rows)
    for check in result.checks:
        if check.note:
            print_text(f"{check.what}: {check.note}")
    _show_error(result)
    print_text(f"\nQuestion: {lesson.question}\nAnswer, by experiment: {result.answer}")
    print_text("\nComputed by: " + ", ".join(code.name for code in result.code))


def _show_all(results: list[Result]) -> None:
    from ..lessons.lesson import LECTURES

    rows = []
    for result in results:
        for number, check in enumerate(result.checks):
            name = ("", "") if number else (result.lesson.name, LECTURES[result.lesson.lecture])
            rows.append((*name, check.what, check.slide, check.computed, "yes" if check.ok else "NO"))
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
