"""Translation with an encoder-decoder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from ..core.config import check
from ..core.errors import InputError
from ..models.decoding.search import Beams
from ..models.model import Model, tokenizer_of
from ..tasks.base import AnyRow, task_of_model
from ..tasks.examples import blocks, rows_of
from ..tasks.translation import BEAMS, Translation
from ..text.readers.parallel import bracket_error, with_language_tag
from ..text.readers.tables import Row
from ..text.tokenizers.encoding import TextCounts
from .engine.engine import Engine
from .prepared import as_rows
from .ready import usual_length

BLOCK_ROWS = 1024  # texts of a file that are sorted by length together
BLOCK_CHARACTERS = 1 << 20
BRACKETS = ("flag", "enforce")


@dataclass(frozen=True)
class TranslationSettings:
    """Translation settings.

    beams: beam size, 1 for greedy decoding; num_results: translations per text; length_penalty: scores are divided by
    length to this power; max_new_tokens: maximum length, None for 50 more than the source; to: target language of a
    multilingual model; brackets: for parse trees as bracket strings, "flag" ranks well-formed ones first and reports
    errors of the others, "enforce" constrains decoding to well-formed ones. Raises ConfigError for values out of range.
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
        """Return the beam search settings; bracket strings need all beams to select the best well-formed one."""
        Beams(self.beams, self.num_results, self.length_penalty)
        return Beams(self.beams, self.beams if self.brackets else self.num_results, self.length_penalty)


@dataclass(frozen=True)
class Translated:
    """One translation.

    score: log probability / length ** length_penalty (not divided with one beam), both with the end token if the
    translation has ended; is_ended: False if it was truncated
    at the maximum length; fault: why it is not a well-formed bracket string, None if it is or was not checked.
    """

    text: str
    score: float
    is_ended: bool
    fault: str | None = None


class TextTranslator:
    """Translates with an encoder-decoder and its tokenizers. counts: truncated and unknown tokens so far.

    max_length: maximum source tokens, None for that of training; longer sources are truncated. Raises InputError for
    another model.
    """

    def __init__(self, model: Model, max_length: int | None = None) -> None:
        if not model.has_decoder or model.head_name != "seq2seq":
            raise InputError("Translation requires an encoder-decoder: train one with finetune translation.")
        self.model, self.tokenizer = model.eval(), tokenizer_of(model)
        model.engine = model.engine or Engine()
        self.max_length = usual_length(model, max_length)
        self.counts = TextCounts()
        task = task_of_model(model)
        assert isinstance(task, Translation)
        self.task = task

    def translate(self, texts: Sequence[str], settings: TranslationSettings | None = None) -> list[list[Translated]]:
        """Return `num_results` translations of each text, best first."""
        return [found for _, found in self.stream(rows_of(texts), settings)]

    predict = translate

    def stream(
        self, rows: Iterable[AnyRow], settings: TranslationSettings | None = None
    ) -> Iterator[tuple[AnyRow, list[Translated]]]:
        """Yield rows with their translations, in order; rows are read in blocks."""
        settings = settings or TranslationSettings()
        for block in blocks(as_rows(rows), BLOCK_ROWS, BLOCK_CHARACTERS):
            sources = block
            if settings.to is not None:
                sources = [
                    Row(
                        self.source_of(row.text, settings.to),
                        None,
                        None,
                        getattr(row, "line", 1),
                        getattr(row, "file", "the texts"),
                    )
                    for row in block
                ]
            examples = self.task.unlabeled(sources, self.tokenizer, self.max_length, counts=self.counts)
            if settings.brackets is not None:
                examples = replace(examples, rows=block)  # the words of a tree exclude the language tag
            answers = self.task.predict(
                self.model,
                examples,
                beams=settings.search(),
                max_new_tokens=settings.max_new_tokens,
                only_trees=settings.brackets == "enforce",
            )
            for row, answer in zip(block, answers, strict=True):
                every = (answer, *answer.get("others", []))
                found = [Translated(one[Translation.written], one["score"], one["ended"]) for one in every]
                if settings.brackets:  # well-formed ones first
                    found = [replace(one, fault=bracket_error(one.text, row.text)) for one in found]
                    found = sorted(found, key=lambda one: one.fault is not None)[: settings.num_results]
                yield row, found

    def source_of(self, text: str, to: str | None) -> str:
        """The text with the tag of the target language, if given. Raises InputError for a model without such tags."""
        if to is None:
            return text
        if not self.task.languages and not self.task.codes:
            raise InputError("The model was trained without language tags: remove the target language.")
        return with_language_tag(text, to, self.task.codes)
