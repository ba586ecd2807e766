"""Lessons and their results, as plain values for the terminal, the page and the studio."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..report import Block
    from .own import OwnInput
    from .recorder import Check, LessonRecorder

APPLICATIONS = "BERT and Applications in NLP"
FRONTIERS = "Frontiers in NLP II: pre-trained model BERT"
SESSION = "Understanding LLMs, session 03: LSTMs & Transformers"
AUTOENCODER = "BERT & Autoencoder"
NEUROCOMPUTING = "Neurocomputing: Transformers"
LECTURES = {  # with a short name for narrow columns
    APPLICATIONS: "Applications",
    FRONTIERS: "Frontiers",
    SESSION: "Session 03",
    AUTOENCODER: "Autoencoder",
    NEUROCOMPUTING: "Neurocomputing",
}


@dataclass(frozen=True)
class Lesson:
    """A demonstration from the lectures.

    name: for the command line; part: the heading of its group; lecture: one of LECTURES, the first that shows it;
    topic: of the slide; title: what is learned; about: a few sentences; functions: the functions that compute the
    numbers, "module:name" below `maskwright.` (shown as code, and broken by a test that expects the lesson to fail);
    question: for the reader, answered by an experiment; run: records numbers, pictures and the answer; accepts: which
    inputs of your own it takes, "matrix" or "text"; run_own: runs on them.
    """

    name: str
    part: str
    lecture: str
    topic: str
    title: str
    about: str
    functions: tuple[str, ...]
    question: str
    run: Callable[[LessonRecorder], None] = field(repr=False)
    accepts: tuple[str, ...] = ()
    run_own: Callable[[LessonRecorder, OwnInput], None] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Code:
    """A function of the toolkit: its name ("maskwright.nn.attention:scaled_dot_product") and its source code."""

    name: str
    text: str


@dataclass(frozen=True)
class Result:
    """The result of running a lesson. pictures: report blocks with its numbers; answer: to the question, in words, with
    answer_pictures; error: the error that stopped it, or None; seconds: the run time; is_own: whether it ran on your
    own input instead of the slide's example.
    """

    lesson: Lesson
    checks: tuple[Check, ...]
    pictures: tuple[Block, ...]
    answer: str
    answer_pictures: tuple[Block, ...]
    code: tuple[Code, ...]
    seconds: float
    error: str | None = None
    is_own: bool = False

    @property
    def ok(self) -> bool:
        """Whether it finished, and has checks that all pass."""
        return self.error is None and bool(self.checks) and all(check.ok for check in self.checks)

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
            "error": self.error,
            "checks": [vars(check) for check in self.checks],
            "question": lesson.question,
            "answer": self.answer,
            "functions": [f"maskwright.{name}" for name in lesson.functions],
            "seconds": round(self.seconds, 3),
        }
