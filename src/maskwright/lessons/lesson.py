"""What a lesson is, and what running it gives. Plain values: a terminal, a page and a studio show the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..train.report import Block
    from .sheet import Sheet

APPLICATIONS = "BERT and Applications in NLP"
FRONTIERS = "Frontiers in NLP II: pre-trained model BERT"
SESSION = "Understanding LLMs, session 03: LSTMs & Transformers"
AUTOENCODER = "BERT & Autoencoder"
NEUROCOMPUTING = "Neurocomputing: Transformers"
LECTURES = {  # and a word for each, where room is short
    APPLICATIONS: "Applications",
    FRONTIERS: "Frontiers",
    SESSION: "Session 03",
    AUTOENCODER: "Autoencoder",
    NEUROCOMPUTING: "Neurocomputing",
}


@dataclass(frozen=True)
class Lesson:
    """One demonstration of the lectures.

    name: for the command line; part: the heading under which it stands; lecture: one of LECTURES, the first that shows
    it; topic: of the slide; title: what is learnt; about: a few sentences; functions: "module:name" below `maskwright.`
    of what computes the numbers (shown as code, and broken by a test that wants to see the lesson fail); question: for
    the reader, which an experiment answers; run: notes numbers, pictures and the answer on a sheet.
    """

    name: str
    part: str
    lecture: str
    topic: str
    title: str
    about: str
    functions: tuple[str, ...]
    question: str
    run: Callable[[Sheet], None] = field(repr=False)


@dataclass(frozen=True)
class Check:
    """One number, or one law. what: which; slide: as the lecture has it; computed: as we find it; ok: whether that is
    what it must be; note: where the slide is off, why, and what is right ("" where they agree).
    """

    what: str
    slide: str
    computed: str
    ok: bool
    note: str = ""


@dataclass(frozen=True)
class Code:
    """A function of the toolkit: its place ("maskwright.nn.attention:scaled_dot_product") and its text."""

    name: str
    text: str


@dataclass(frozen=True)
class Result:
    """A lesson that was run. pictures: blocks of a report, made of its numbers; answer: to the question, in words, with
    answer_pictures; error: what stopped it, None where nothing did; seconds: it took.
    """

    lesson: Lesson
    checks: tuple[Check, ...]
    pictures: tuple[Block, ...]
    answer: str
    answer_pictures: tuple[Block, ...]
    code: tuple[Code, ...]
    seconds: float
    error: str | None = None

    @property
    def ok(self) -> bool:
        """Whether it ran to its end, checked something, and every check holds."""
        return self.error is None and bool(self.checks) and all(check.ok for check in self.checks)

    def to_json(self) -> dict[str, Any]:
        """Plain values, without pictures."""
        lesson = self.lesson
        return {
            "name": lesson.name,
            "lecture": lesson.lecture,
            "topic": lesson.topic,
            "title": lesson.title,
            "about": lesson.about,
            "ok": self.ok,
            "error": self.error,
            "checks": [vars(check) for check in self.checks],
            "question": lesson.question,
            "answer": self.answer,
            "functions": [f"maskwright.{name}" for name in lesson.functions],
            "seconds": round(self.seconds, 3),
        }
