"""Run lessons. A lesson that raises an error has failed, like one with wrong numbers; the others still run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from ..core.errors import InputError
from ..core.progress import be_silent
from .catalog import lesson
from .inputs import Value, read_values
from .lesson import Lesson, Result, code_of
from .recorder import LessonRecorder


def run(chosen: Lesson | str, values: Mapping[str, Value] | None = None, *, files: bool = False) -> Result:
    """Runs one lesson.

    Args:
        chosen: The lesson or its name.
        values: Values of its inputs by name, also as text. Default: the slide's.
        files: Whether a matrix may be the path of a text file.

    Raises:
        ConfigError: The name of the lesson or of an input is unknown.
        InputError: A value does not fit the lesson. Whatever else goes wrong inside is in the result.
    """
    if isinstance(chosen, str):
        chosen = lesson(chosen)
    used = read_values(chosen.name, chosen.inputs, values or {}, files=files)
    is_own = any(used[one.name] != one.default for one in chosen.inputs)
    record, error = LessonRecorder(is_own), None
    start = time.perf_counter()
    try:
        with be_silent():
            chosen.run(record, **used)
    except Exception as problem:  # a lesson whose code is broken must not keep others from being seen
        if is_own and isinstance(problem, InputError):
            raise
        error = f"{type(problem).__name__}: {problem}"
    seconds = time.perf_counter() - start
    pictures, answers = tuple(record.pictures), tuple(record.answer_pictures)
    checks, code = tuple(record.checks), code_of(chosen.functions)
    return Result(chosen, checks, pictures, record.answer_text, answers, code, seconds, error, used, is_own)


def run_all(
    names: Iterable[str],
    on_lesson: Callable[[int, str], None] = lambda number, name: None,
    values: Mapping[str, Value] | None = None,
    *,
    files: bool = False,
) -> list[Result]:
    """Runs several lessons in the given order.

    Args:
        names: Names of lessons.
        on_lesson: Called with the number (from 1) and name of each before it runs.
        values: Values of inputs, which each of them must have. Default: the slides'.
        files: Whether a matrix may be the path of a text file.
    """
    results = []
    for number, name in enumerate(names, 1):
        on_lesson(number, name)
        results.append(run(name, values, files=files))
    return results
