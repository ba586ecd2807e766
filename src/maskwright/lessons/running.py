"""Running lessons. A lesson that raises has failed, as one whose numbers are wrong; the others run all the same."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from ..core.progress import be_silent
from .catalogue import lesson
from .lesson import Lesson, Result
from .sheet import Sheet
from .source import code_of


def run(chosen: Lesson | str) -> Result:
    """Run one lesson. Raises ConfigError for an unknown name; whatever goes wrong inside is in the result."""
    if isinstance(chosen, str):
        chosen = lesson(chosen)
    sheet, error = Sheet(), None
    start = time.perf_counter()
    try:
        with be_silent():
            chosen.run(sheet)
    except Exception as problem:  # a lesson whose code is broken must not keep others from being seen
        error = f"{type(problem).__name__}: {problem}"
    seconds = time.perf_counter() - start
    pictures, answers = tuple(sheet.pictures), tuple(sheet.answer_pictures)
    checks, code = tuple(sheet.checks), code_of(chosen.functions)
    return Result(chosen, checks, pictures, sheet.answer_text, answers, code, seconds, error)


def run_all(names: Iterable[str], on_lesson: Callable[[int, str], None] = lambda number, name: None) -> list[Result]:
    """Run several, in the order given. on_lesson: told the number (from 1) and name of each before it runs."""
    results = []
    for number, name in enumerate(names, 1):
        on_lesson(number, name)
        results.append(run(name))
    return results
