"""Run lessons. A lesson that raises an error has failed, like one with wrong numbers; the others still run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

from ..core.errors import ConfigError, InputError
from ..core.progress import be_silent
from .catalog import lesson, lessons
from .lesson import Lesson, Result
from .own import OwnInput
from .recorder import LessonRecorder
from .source import code_of


def run(chosen: Lesson | str, own: OwnInput | None = None) -> Result:
    """Runs one lesson.

    Args:
        chosen: The lesson or its name.
        own: Your own matrix or text instead of the slide's example. Default: none.

    Raises:
        ConfigError: The name is unknown, or the lesson does not take this input.
        InputError: The input does not fit the lesson. Whatever else goes wrong inside is in the result.
    """
    if isinstance(chosen, str):
        chosen = lesson(chosen)
    given = own.given() if own is not None else ()
    check_accepts(chosen, given)
    record, error = LessonRecorder(), None
    start = time.perf_counter()
    try:
        with be_silent():
            if given and own is not None and chosen.run_own is not None:
                chosen.run_own(record, own)
            else:
                chosen.run(record)
    except Exception as problem:  # a lesson whose code is broken must not keep others from being seen
        if given and isinstance(problem, InputError):
            raise
        error = f"{type(problem).__name__}: {problem}"
    seconds = time.perf_counter() - start
    pictures, answers = tuple(record.pictures), tuple(record.answer_pictures)
    checks, code = tuple(record.checks), code_of(chosen.functions)
    return Result(chosen, checks, pictures, record.answer_text, answers, code, seconds, error, bool(given))


def check_accepts(chosen: Lesson, given: Sequence[str]) -> None:
    """Raise ConfigError for an input that the lesson does not accept; the error names the lessons that do."""
    for name in given:
        if name not in chosen.accepts:
            able = ", ".join(one.name for one in lessons().values() if name in one.accepts)
            raise ConfigError(f"The lesson {chosen.name} takes no {name} of your own; these do: {able}.")


def run_all(
    names: Iterable[str],
    on_lesson: Callable[[int, str], None] = lambda number, name: None,
    own: OwnInput | None = None,
) -> list[Result]:
    """Runs several lessons in the given order.

    Args:
        names: Names of lessons.
        on_lesson: Called with the number (from 1) and name of each before it runs.
        own: Your own input for all of them. Default: the slides' examples.
    """
    results = []
    for number, name in enumerate(names, 1):
        on_lesson(number, name)
        results.append(run(name, own))
    return results
