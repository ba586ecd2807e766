"""Texts in, translations out, by an encoder-decoder: the best of each, or several with scores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..core.config import check
from ..core.errors import InputError
from ..models.decoding.beam import Beams
from ..models.model import Model
from ..tasks import Translation, task_of_model
from ..tasks.base import AnyRow
from ..tasks.examples import blocks, rows_of
from ..tasks.translation import BEAMS
from ..text.brackets import fault_of
from ..text.encoding import TextCounts
from ..text.language_tags import asking
from ..text.tables import Row
from .engine.engine import Engine
from .ready import tokenizer_of, usual_length

BLOCK_ROWS = 1024  # texts of a file that are sorted by length together
BLOCK_CHARACTERS = 1 << 20
BRACKETS = ("flag", "enforce")


@dataclass(frozen=True)
class TranslationSettings:
    """How texts are translated.

    beams: translations that are followed at once, 1 for the most probable token each time; num_results: how many of
    them are wanted; length_penalty: scores are divided by length to this power; max_new_tokens: of a translation, None
    for 50 more than its source; to: the language to write, of a model that knows several; brackets: the results are
    trees as bracket strings; "flag" for those that are well-formed first and the others with their faults, "enforce"
    for writing nothing else wherever that is possible. Raises ConfigError for values out of range.
    """

    beams: int = BEAMS
    num_results: int = 1
    length_penalty: float = 1.0
    max_new_tokens: int | None = None
    to: str | None = None
    brackets: str | None = None

    def __post_init__(self) -> None:
        self.search()
        check(
            self.brackets is None or self.brackets in BRACKETS,
            f"brackets is '{self.brackets}'; it must be one of {', '.join(BRACKETS)}.",
        )
        most = self.max_new_tokens
        check(most is None or most >= 1, f"max_new_tokens is {most}; it must be at least 1.")

    def search(self) -> Beams:
        """The beams; of bracket strings all results, since the best well-formed one is wanted."""
        Beams(self.beams, self.num_results, self.length_penalty)
        return Beams(self.beams, self.beams if self.brackets else self.num_results, self.length_penalty)


@dataclass(frozen=True)
class Translated:
    """One translation. score: log probability / length ** length_penalty (with one beam undivided); is_ended: False
    where the text was cut off at its longest; fault: what is wrong with it as a bracket string, None where nothing is
    or nobody asked.
    """

    text: str
    score: float
    is_ended: bool
    fault: str | None = None


class Translating:
    """Translates with an encoder-decoder and its tokenizers. counts: what was cut or unknown in all texts so far.

    max_length: tokens of a source, None as in training; the rest is cut. Raises InputError for another model.
    """

    def __init__(self, model: Model, max_length: int | None = None) -> None:
        if not model.has_decoder or model.head_name != "seq2seq":
            raise InputError("Only an encoder-decoder translates: finetune translation makes one.")
        self.model, self.tokenizer = model.eval(), tokenizer_of(model)
        model.engine = model.engine or Engine()
        self.max_length = usual_length(model, max_length)
        self.counts = TextCounts()
        task = task_of_model(model)
        assert isinstance(task, Translation)
        self.task = task

    def translate(self, texts: Sequence[str], settings: TranslationSettings | None = None) -> list[list[Translated]]:
        """`num_results` translations of each text, best first."""
        return [found for _, found in self.stream(rows_of(texts), settings)]

    def stream(
        self, rows: Iterable[AnyRow], settings: TranslationSettings | None = None
    ) -> Iterator[tuple[AnyRow, list[Translated]]]:
        """The same for rows, in their order; they are read block by block."""
        settings = settings or TranslationSettings()
        for block in blocks(rows, BLOCK_ROWS, BLOCK_CHARACTERS):
            to = settings.to
            asked = block if to is None else [_with_source(row, self.source_of(row.text, to)) for row in block]
            examples = self.task.unlabelled(asked, self.tokenizer, self.max_length, counts=self.counts)
            if settings.brackets is not None:
                examples = replace(examples, rows=block)  # the words of a tree are those behind a tag
            answers = self.task.predict(
                self.model,
                examples,
                beams=settings.search(),
                max_new_tokens=settings.max_new_tokens,
                only_trees=settings.brackets == "enforce",
            )
            for row, answer in zip(block, answers, strict=True):
                found = [_translated(one) for one in (answer, *answer.get("others", []))]
                yield row, _trees(found, row.text)[: settings.num_results] if settings.brackets else found

    def source_of(self, text: str, to: str | None) -> str:
        """The text as the network reads it: behind what names the language `to`, if one is given.

        Raises InputError where the model knows no languages.
        """
        if to is None:
            return text
        if not self.task.languages and not self.task.codes:
            raise InputError("The model was trained without language tags: name no language to write.")
        return asking(text, to, self.task.codes)


def _with_source(row: AnyRow, source: str) -> Row:
    """The row with another source."""
    return Row(source, None, None, getattr(row, "line", 1), getattr(row, "file", "the texts"))


def _trees(found: Sequence[Translated], source: str) -> list[Translated]:
    """Bracket strings with their faults, those without one first, each part best first."""
    checked = [replace(one, fault=fault_of(one.text, source)) for one in found]
    return sorted(checked, key=lambda one: one.fault is not None)


def _translated(answer: dict[str, Any]) -> Translated:
    return Translated(answer["translation"], answer["score"], answer["ended"])
