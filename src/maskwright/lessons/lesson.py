"""Lessons and their results, as plain values for the terminal, the page and the studio."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from shlex import quote
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..report import Block
    from .inputs import Input, Value
    from .recorder import Check


@dataclass(frozen=True)
class Lesson:
    """A demonstration from the lectures: an entry of lessons.toml.

    lecture, short_lecture: the first that shows it; about: a few sentences; functions: the functions that compute the
    numbers, "module:name" below `maskwright.` (shown as code, and broken by a test that expects the lesson to fail);
    inputs: what the reader can change; name: for the command line; module: of topics/; part: the heading of its group;
    topic: of the slide; title: what is learned; question: for the reader, answered by an experiment.
    """

    lecture: str
    short_lecture: str
    about: str
    functions: tuple[str, ...]
    inputs: tuple[Input, ...]
    name: str
    module: str
    part: str
    topic: str
    title: str
    question: str

    @property
    def run(self) -> Callable[..., None]:
        """Its function: records numbers, pictures and the answer with a LessonRecorder, and takes the inputs."""
        owner, last = find(f"lessons.topics.{self.module}:lesson_{self.name.replace('-', '_')}")
        return getattr(owner, last)


@dataclass(frozen=True)
class Code:
    """A function of the toolkit: its name ("maskwright.nn.attention:scaled_dot_product") and its source code."""

    name: str
    text: str


@dataclass(frozen=True)
class Result:
    """The result of running a lesson. pictures: report blocks with its numbers; answer: to the question, in words, with
    answer_pictures; error: the error that stopped it, or None; seconds: the run time; values: of its inputs; is_own:
    whether one of them is not the slide's.
    """

    lesson: Lesson
    checks: tuple[Check, ...]
    pictures: tuple[Block, ...]
    answer: str
    answer_pictures: tuple[Block, ...]
    code: tuple[Code, ...]
    seconds: float
    error: str | None = None
    values: Mapping[str, Value] = field(default_factory=dict)
    is_own: bool = False

    @property
    def ok(self) -> bool:
        """Whether it finished, and has checks that all pass."""
        return self.error is None and bool(self.checks) and all(check.ok for check in self.checks)

    @property
    def command(self) -> str:
        """The command that runs it with these values."""
        changed = [(one, self.values[one.name]) for one in self.lesson.inputs if self.values[one.name] != one.default]
        options = [f" --set {quote(f'{one.name}={one.written(value)}')}" for one, value in changed]
        return f"maskwright lessons {self.lesson.name}{''.join(options)}"

    def to_json(self) -> dict[str, Any]:
        """Return plain values, without pictures."""
        lesson = self.lesson
        return {
            "name": lesson.name,
            "lecture": lesson.lecture,
            "topic": lesson.topic,
            "title": lesson.title,
            "about": lesson.about,
            "ok": self.ok,
            "is_own": self.is_own,
            "values": {one.name: one.written(self.values[one.name]) for one in lesson.inputs},
            "error": self.error,
            "checks": [vars(check) for check in self.checks],
            "question": lesson.question,
            "answer": self.answer,
            "functions": [f"maskwright.{name}" for name in lesson.functions],
            "seconds": round(self.seconds, 3),
        }


# -- The source code that a lesson shows: the functions of the toolkit that computed its numbers ---------------------


PACKAGE = "maskwright"
MOST_LINES = 60


def find(name: str) -> tuple[Any, str]:
    """Return the owner and the name of a function: "objectives.masked:Masker.select" -> (Masker, "select")."""
    module, _, path = name.partition(":")
    owner: Any = import_module(f"{PACKAGE}.{module}")
    *outer, last = path.split(".")
    for part in outer:
        owner = getattr(owner, part)
    return owner, last


def code_of(names: Iterable[str]) -> tuple[Code, ...]:
    """Return the source code of each function, at most MOST_LINES lines."""
    return tuple(Code(f"{PACKAGE}.{name}", _text(name)) for name in names)


def _text(name: str) -> str:
    owner, last = find(name)
    lines = textwrap.dedent(inspect.getsource(inspect.unwrap(getattr(owner, last)))).rstrip().split("\n")
    if len(lines) <= MOST_LINES:
        return "\n".join(lines)
    return "\n".join([*lines[:MOST_LINES], f"# and {len(lines) - MOST_LINES} more lines"])
