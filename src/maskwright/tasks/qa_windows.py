"""Questions with their contexts as packed windows: [CLS] question [SEP] a piece of the context [SEP].

A context that does not fit is cut into windows that overlap (Devlin et al. 2018, section 4.2): each piece begins
`stride` tokens before the last one ends. Every context token keeps its characters, so an answer is a piece of the
original text. For training, a window points at the tokens of the answer, or at its first token, [CLS], where the
answer is not whole in it (section 4.3).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import torch

from ..core.errors import InputError
from ..text.encoding import Cut, Pieces, Template, TextCounts, all_windows
from ..text.squad import Question
from .examples import TOKENIZE_CHARACTERS, Examples

if TYPE_CHECKING:
    from ..text.tokenizer import Tokenizer

MAX_LENGTH, MAX_STRIDE, MAX_QUESTION_TOKENS = 384, 128, 64  # as published for SQuAD
_BLOCK = 256  # questions whose tokens the library holds at once


def default_stride(max_length: int) -> int:
    """Tokens that neighbouring windows share where nothing else is said: a third of `max_length`, at most 128."""
    return min(MAX_STRIDE, max_length // 3)


@dataclass(frozen=True)
class Windows(Examples):
    """Windows of all questions, in the order of the questions, then of their contexts.

    `input_ids` has one entry for each window; `targets` int64 [windows, 2] are the tokens where the answer begins and
    ends; `rows` are the questions. question: int64 [windows], the index of each window's question; first: int64
    [windows], its first context token; spans: for each window int32 [context tokens, 2], the first character of each in
    its context and the one behind the last; unreachable: indices of the questions whose answer is whole in no window.
    """

    question: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64), repr=False)
    first: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64), repr=False)
    spans: Sequence[np.ndarray] = field(default=(), repr=False)
    unreachable: Sequence[int] = ()

    @property
    def num_rows(self) -> int:
        """Questions."""
        return len(self.rows)

    @property
    def questions(self) -> Sequence[Question]:
        """Those that were asked."""
        return cast(Sequence[Question], self.rows)

    def may_answer(self, window: int) -> np.ndarray:
        """Which tokens an answer may begin or end at: bool [tokens]. Those of the context that stand for characters."""
        allowed = np.zeros(len(self.input_ids[window]), dtype=bool)
        spans, first = self.spans[window], self.first[window]
        allowed[first : first + len(spans)] = spans[:, 1] > spans[:, 0]
        return allowed


def make_windows(
    questions: Sequence[Question],
    tokenizer: Tokenizer,
    max_length: int = MAX_LENGTH,
    *,
    stride: int | None = None,
    max_question_tokens: int = MAX_QUESTION_TOKENS,
    counts: TextCounts | None = None,
    num_skipped: int = 0,
) -> Windows:
    """Cut questions and contexts into windows of at most `max_length` tokens, special ones included.

    stride: context tokens that neighbouring windows share (None: a third of max_length, at most 128);
    max_question_tokens: a longer question, or one that takes more than half of a window, loses its end. Targets are
    made when it is known of every question what answers it has; its first one counts. counts: adds up what was cut or
    unknown. Raises InputError when the stride is as long as a window's context.
    """
    counts = TextCounts() if counts is None else counts
    made = _Maker(tokenizer, max_length, stride, max_question_tokens, counts)
    for block in _blocks(questions):
        made.add(block)
    has_targets = bool(questions) and all(question.answers is not None for question in questions)
    targets = torch.tensor(made.targets, dtype=torch.int64).reshape(-1, 2) if has_targets else None
    return Windows(
        made.input_ids,
        made.token_types if made.has_types else None,
        targets,
        cast(Any, questions),
        counts,
        num_skipped,
        np.asarray(made.question, dtype=np.int64),
        np.asarray(made.first, dtype=np.int64),
        made.spans,
        made.unreachable if has_targets else (),
    )


def _blocks(questions: Sequence[Question]) -> Iterator[list[Question]]:
    """Neighbours whose tokens the library holds at once: so many questions, and contexts of so many characters."""
    block: list[Question] = []
    contexts: set[str] = set()
    characters = 0
    for question in questions:
        block.append(question)
        if question.context not in contexts:
            contexts.add(question.context)
            characters += len(question.context)
        if len(block) == _BLOCK or characters >= TOKENIZE_CHARACTERS:
            yield block
            block, contexts, characters = [], set(), 0
    if block:
        yield block


class _Maker:
    """Windows as they are made, block by block; a context is tokenised once for neighbouring questions on it."""

    def __init__(
        self, tokenizer: Tokenizer, max_length: int, stride: int | None, max_question_tokens: int, counts: TextCounts
    ) -> None:
        self.tokenizer, self.counts = tokenizer, counts
        self.stride = default_stride(max_length) if stride is None else stride
        self.template: Template = tokenizer("a", "a").template
        self.room = max_length - self.template.num_special
        self.max_question = min(max_question_tokens, self.room // 2)
        if self.max_question < 1 or self.stride < 0:
            raise InputError(
                f"max_length={max_length}, max_question_tokens={max_question_tokens} and stride={self.stride} leave no "
                "room for a question and its context: raise the first two, and let stride be 0 or more."
            )
        self.input_ids: list[np.ndarray] = []
        self.token_types: list[np.ndarray] = []
        self.question: list[int] = []
        self.first: list[int] = []
        self.spans: list[np.ndarray] = []
        self.targets: list[tuple[int, int]] = []
        self.unreachable: list[int] = []
        self.num_questions = 0
        self.has_types = 1 in self.template.type_ids

    def add(self, questions: Sequence[Question]) -> None:
        """Make the windows of a block of questions."""
        contexts = list(dict.fromkeys(question.context for question in questions))
        found = dict(zip(contexts, map(_Tokens.of, self._pieces(contexts)), strict=True))
        for question, asked in zip(questions, self._pieces([question.question for question in questions]), strict=True):
            self._add_question(question, asked, found[question.context])
            self.num_questions += 1

    def _pieces(self, texts: list[str]) -> list[Pieces]:
        return [encoding.pieces[0] for encoding in self.tokenizer.encode_batch(texts, add_special_tokens=False)]

    def _add_question(self, question: Question, asked: Pieces, context: _Tokens) -> None:
        kept = asked.ids[: self.max_question]
        self._count(asked, kept, context)
        target = _token_span(question, context.spans)
        before = [*self.template.gaps[0][0], *kept, *self.template.gaps[1][0]]
        after, first, num_reached = self.template.gaps[2][0], len(before), 0
        for start, end in self._cuts(len(kept), len(context.ids)):
            is_inside = target is not None and start <= target[0] and target[1] < end
            num_reached += is_inside
            shift = first - start
            self.targets.append((target[0] + shift, target[1] + shift) if target and is_inside else (0, 0))
            self.input_ids.append(np.asarray([*before, *context.ids[start:end], *after], dtype=np.int32))
            if self.has_types:
                self.token_types.append(self._types(len(kept), end - start))
            self.question.append(self.num_questions)
            self.first.append(first)
            self.spans.append(context.spans[start:end])
        if question.answers and not num_reached:
            self.unreachable.append(self.num_questions)

    def _cuts(self, num_question: int, num_context: int) -> list[tuple[int, int]]:
        """First token and end of each window on a context."""
        size = min(num_context, self.room - num_question)
        if size < num_context and self.stride >= size:
            raise InputError(
                f"stride={self.stride} must be smaller than the {size} tokens of context that a window has room for: "
                "lower stride or raise max_length."
            )
        return all_windows(num_context, (0, size), Cut(self.room, "only_second", self.stride))

    def _types(self, num_question: int, num_context: int) -> np.ndarray:
        gaps, (asked, context) = self.template.gaps, self.template.type_ids
        parts = [*gaps[0][2], *[asked] * num_question, *gaps[1][2], *[context] * num_context, *gaps[2][2]]
        return np.asarray(parts, dtype=np.int8)

    def _count(self, asked: Pieces, kept: list[int], context: _Tokens) -> None:
        unk, special = self.tokenizer.unk_id, self.template.num_special
        unknown = 0 if unk is None else kept.count(unk) + context.ids.count(unk)
        self.counts.add(len(kept) + len(context.ids) + special, len(asked) - len(kept), unknown, special)


class _Tokens(NamedTuple):
    """A context: ids, and spans int32 [tokens, 2]."""

    ids: list[int]
    spans: np.ndarray

    @classmethod
    def of(cls, pieces: Pieces) -> _Tokens:
        """What the windows need of the library's pieces."""
        return cls(pieces.ids, np.asarray(pieces.offsets, dtype=np.int32).reshape(-1, 2))


def _token_span(question: Question, spans: np.ndarray) -> tuple[int, int] | None:
    """First and last context token that the first answer touches; None where there is none."""
    if not question.answers:
        return None
    gold = question.answers[0]
    start = gold.start + len(gold.text) - len(gold.text.lstrip())
    end = gold.start + len(gold.text.rstrip())
    touched = np.flatnonzero((spans[:, 0] < end) & (spans[:, 1] > start))
    return (int(touched[0]), int(touched[-1])) if len(touched) else None
