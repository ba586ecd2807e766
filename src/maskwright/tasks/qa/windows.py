"""Questions with contexts as packed windows: [CLS] question [SEP] part of the context [SEP].

A long context is split into windows that overlap by `stride` tokens (Devlin et al. 2019, section 4.2). Context tokens
keep their character offsets, so an answer is a span of the original text. The training target of a window is the token
range of the whole words of the answer, or [CLS] if they are not all in the window (section 4.3).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import torch

from ...core.errors import InputError
from ...text.readers.squad import Question
from ...text.tokenizers.encoding import Encoding, Pieces, SpecialTokensTemplate, TextCounts, Truncation, all_windows
from ...text.words import whole_words, word_edges
from ..examples import TOKENIZE_CHARACTERS, Examples

if TYPE_CHECKING:
    from ...text.tokenizers.tokenizer import Tokenizer

MAX_LENGTH, MAX_STRIDE, MAX_QUESTION_TOKENS = 384, 128, 64  # as published for SQuAD
_BLOCK = 256  # questions tokenized at once


def default_stride(max_length: int) -> int:
    """Default overlap of neighboring windows in tokens: a third of `max_length`, at most 128."""
    return min(MAX_STRIDE, max_length // 3)


@dataclass(frozen=True)
class Windows(Examples):
    """Windows of all questions, in the order of the questions and the context.

    `input_ids` has one entry per window; `targets` int64 [windows, 2] are the first and last answer token; `rows` are
    the questions. question: int64 [windows], question of each window; first: int64 [windows], its first context token;
    spans: for each window int32 [context tokens, 2], character range of each context token, end exclusive; unreachable:
    indices of questions whose answer is not completely in any window.
    """

    question: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64), repr=False)
    first: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64), repr=False)
    spans: Sequence[np.ndarray] = field(default=(), repr=False)
    unreachable: Sequence[int] = ()

    @property
    def num_rows(self) -> int:
        return len(self.rows)

    @property
    def questions(self) -> Sequence[Question]:
        return cast(Sequence[Question], self.rows)


def make_windows(
    questions: Sequence[Question],
    tokenizer: Tokenizer,
    max_length: int = MAX_LENGTH,
    *,
    stride: int | None = None,
    max_question_tokens: int = MAX_QUESTION_TOKENS,
    counts: TextCounts | None = None,
) -> Windows:
    """Splits questions with contexts into windows of at most `max_length` tokens, including special tokens.

    stride: overlap of neighboring windows in context tokens (default: a third of max_length, at most 128);
    max_question_tokens: longer questions are truncated, at most to half of a window. Targets are created if the answers
    of all questions are known; the first answer is used. counts: accumulates truncated and unknown tokens. Raises
    InputError if the stride is not smaller than the context of a window.
    """
    counts = TextCounts() if counts is None else counts
    stride = default_stride(max_length) if stride is None else stride
    template = tokenizer("a", "a").template
    room = max_length - template.num_special
    most = min(max_question_tokens, room // 2)
    if most < 1 or stride < 0:
        raise InputError(
            f"max_length={max_length}, max_question_tokens={max_question_tokens} and stride={stride} leave no room for "
            "a question and its context: raise the first two, and set stride to 0 or more."
        )

    def tokenized(texts: list[str]) -> list[Pieces]:
        return [encoding.pieces[0] for encoding in tokenizer.encode_batch(texts, add_special_tokens=False)]

    made: list[_Window] = []
    unreachable = []
    number = 0
    for block in _blocks(questions):
        contexts = list(dict.fromkeys(question.context for question in block))  # tokenized once for several questions
        found = dict(zip(contexts, map(_Tokens.of, contexts, tokenized(contexts)), strict=True))
        for question, tokens in zip(block, tokenized([one.question for one in block]), strict=True):
            context, kept = found[question.context], min(len(tokens), most)
            own = list(_windows_of(question, number, (tokens, context), kept, template, room, stride))
            unknown = 0
            if tokenizer.unk_id is not None:
                unknown = tokens.ids[:kept].count(tokenizer.unk_id) + context.pieces.ids.count(tokenizer.unk_id)
            size = kept + len(context.pieces) + template.num_special
            counts.add(size, len(tokens) - kept, unknown, template.num_special)
            if question.answers and not any(window.target[1] for window in own):
                unreachable.append(number)
            made += own
            number += 1
    has_targets = bool(questions) and all(question.answers is not None for question in questions)
    targets = torch.tensor([one.target for one in made], dtype=torch.int64).reshape(-1, 2) if has_targets else None
    return Windows(
        [one.ids for one in made],
        [one.types for one in made] if 1 in template.type_ids else None,
        targets,
        cast(Any, questions),
        counts,
        question=np.array([one.question for one in made], dtype=np.int64),
        first=np.array([one.first for one in made], dtype=np.int64),
        spans=[one.spans for one in made],
        unreachable=unreachable if has_targets else (),
    )


def _blocks(questions: Sequence[Question]) -> Iterator[list[Question]]:
    """Splits questions into blocks tokenized at once, limited by questions and by characters of their contexts."""
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


class _Window(NamedTuple):
    """A window: its tokens, their types, its question, first context token, context spans, and target."""

    ids: np.ndarray
    types: np.ndarray
    question: int
    first: int
    spans: np.ndarray
    target: tuple[int, int]


class _Tokens(NamedTuple):
    """A tokenized context: spans int32 [tokens, 2], and words int64 [characters, 2] from `word_edges`."""

    pieces: Pieces  # terms: ok (SentencePiece's word; shared by tasks)
    spans: np.ndarray
    words: np.ndarray

    @classmethod
    def of(cls, context: str, pieces: Pieces) -> _Tokens:
        return cls(pieces, np.asarray(pieces.offsets, dtype=np.int32).reshape(-1, 2), word_edges(context))


def _windows_of(
    question: Question,
    number: int,
    tokens: tuple[Pieces, _Tokens],
    kept: int,
    template: SpecialTokensTemplate,
    room: int,
    stride: int,
) -> Iterator[_Window]:
    """Yields the windows of a question. tokens: of the question, of which `kept` are used, and of its context."""
    asked, context = tokens
    target = _token_span(question, context)
    size = min(len(context.pieces), room - kept)
    if size < len(context.pieces) and stride >= size:
        raise InputError(
            f"stride={stride} must be smaller than the {size} context tokens of a window: lower stride or raise "
            "max_length."
        )
    first = len(template.gaps[0][0]) + kept + len(template.gaps[1][0])
    for start, end in all_windows(len(context.pieces), (0, size), Truncation(room, "only_second", stride)):
        window = Encoding((asked, context.pieces), ((0, kept), (start, end)), template)
        is_inside = target is not None and start <= target[0] and target[1] < end
        shift = first - start
        yield _Window(
            np.asarray(window.ids, dtype=np.int32),
            np.asarray(window.type_ids, dtype=np.int8),
            number,
            first,
            context.spans[start:end],
            (target[0] + shift, target[1] + shift) if target and is_inside else (0, 0),
        )


def _token_span(question: Question, context: _Tokens) -> tuple[int, int] | None:
    """First and last context token of the whole words of the first answer; None without an answer."""
    if not question.answers:
        return None
    gold = question.answers[0]
    place = np.array([[gold.start, gold.start + len(gold.text)]])
    start, end = whole_words(context.words, place)[0]
    touched = np.flatnonzero((context.spans[:, 0] < end) & (context.spans[:, 1] > start))
    return (int(touched[0]), int(touched[-1])) if len(touched) else None


# -- Decodes start and end logits of windows to the best answer spans of each question and a no-answer score ---------
#
# A span is valid if it is in the context, does not end before it begins, and has at most `max_answer_tokens` tokens;
# its score is the sum of its start and end logits (Devlin et al. 2019, section 4.2). The answer consists of the whole
# words of the original text that the span overlaps (`text.words`), with the best score of all spans over the
# same words. The no-answer score is that of the span from [CLS] to [CLS], the minimum over the windows: one window with
# an answer is enough. No answer is predicted if this score exceeds the best span by more than a threshold (section
# 4.3).

MAX_ANSWER_TOKENS, BEST = 30, 20  # as published for SQuAD


@dataclass(frozen=True, slots=True)
class Span:
    """An answer span: `context[start:end] == text`; score: sum of start and end logit; probability: softmax of the
    scores over the listed spans and "no answer".
    """

    text: str
    start: int
    end: int
    score: float
    probability: float


@dataclass(frozen=True, slots=True)
class AnswerCandidates:
    """Candidate answers to one question.

    spans: different spans of the context, best first; no_answer_margin: no-answer score minus the best span score (inf
    if there is no valid span); no_answer_probability: softmax probability of "no answer".
    """

    spans: tuple[Span, ...]
    no_answer_margin: float
    no_answer_probability: float

    def best(self, threshold: float | None = None) -> Span | None:
        """The best span; None if there is none or `no_answer_margin` is above `threshold` (default: no threshold)."""
        if not self.spans or (threshold is not None and self.no_answer_margin > threshold):
            return None
        return self.spans[0]


def find_answers(
    windows: Windows,
    logits: Sequence[np.ndarray],
    *,
    best: int = BEST,
    max_answer_tokens: int = MAX_ANSWER_TOKENS,
    whole: bool = True,
) -> list[AnswerCandidates]:
    """Finds the `best` spans of each question, with `whole` extended to whole words.

    logits: for each window float [tokens, 2], start and end. Spans over the same words, also from overlapping windows,
    count once with their best score; of equal scores the earlier, then the shorter span is first. Raises InputError if
    `best` or `max_answer_tokens` is below 1.
    """
    if best < 1 or max_answer_tokens < 1:
        raise InputError(f"best={best} and max_answer_tokens={max_answer_tokens} must be 1 or more.")
    found: list[dict[tuple[int, int], float]] = [{} for _ in windows.questions]
    nulls = np.full(len(windows.questions), np.inf)
    context, words = "", word_edges("")
    for window, values in enumerate(logits):
        question = int(windows.question[window])
        nulls[question] = min(nulls[question], float(values[0, 0]) + float(values[0, 1]))
        if windows.questions[question].context is not context:
            context = windows.questions[question].context
            words = word_edges(context) if whole else _characters(context)
        for place, score in _window_spans(windows, window, values, words, best, max_answer_tokens):
            if score > found[question].get(place, -np.inf):
                found[question][place] = score
    return [
        _ranked(places, float(null), question.context, best)
        for places, null, question in zip(found, nulls, windows.questions, strict=True)
    ]


def _characters(context: str) -> np.ndarray:
    """Each character as its own word, so that spans stay those of the tokens; as of `word_edges`."""
    places = np.arange(len(context))
    return np.stack([places, places + 1], axis=1)


def span_scores(start: np.ndarray, end: np.ndarray, allowed: np.ndarray, max_answer_tokens: int) -> np.ndarray:
    """Scores of all spans of one window, indexed by start and length - 1: float64 [tokens, lengths].

    start, end: float [tokens], logits; allowed: bool [tokens], where a span may begin or end. Invalid spans have -inf.
    lengths: `max_answer_tokens`, at most the number of tokens.
    """
    tokens = len(start)
    lengths = min(max_answer_tokens, tokens)
    padded = np.full(tokens + lengths, -np.inf)
    padded[:tokens] = np.where(allowed, end, -np.inf)
    ends = np.lib.stride_tricks.sliding_window_view(padded, lengths)[:tokens]  # [tokens, lengths]
    return np.where(allowed, start, -np.inf)[:, None] + ends


def _window_spans(
    windows: Windows, window: int, values: np.ndarray, words: np.ndarray, best: int, max_answer_tokens: int
) -> Iterator[tuple[tuple[int, int], float]]:
    """The best spans of a window as character ranges with scores, at least `best` different ones if there are enough.

    words: int64 [characters, 2], where the word of each character of the context begins and ends.
    """
    spans, first = windows.spans[window], int(windows.first[window])
    if not len(spans):
        return
    own = values[first : first + len(spans)].astype(np.float64)  # [context tokens, 2]
    scores = span_scores(own[:, 0], own[:, 1], spans[:, 1] > spans[:, 0], max_answer_tokens)
    flat = scores.ravel()
    edges = whole_words(words, spans)
    num_valid = int(np.isfinite(flat).sum())
    count, places = min(best, num_valid), {}
    while count:
        # A word can have several tokens, so different token spans can be the same answer.
        cutoff = np.partition(flat, len(flat) - count)[len(flat) - count]
        chosen = np.flatnonzero(flat >= cutoff)  # all that tie with the last one
        places = _as_characters(chosen, flat[chosen], edges, scores.shape[1], best)
        if len(places) >= best or len(chosen) >= num_valid:
            break
        count = min(2 * count, num_valid)
    yield from places.items()


def _as_characters(
    chosen: np.ndarray, scores: np.ndarray, edges: np.ndarray, lengths: int, best: int
) -> dict[tuple[int, int], float]:
    """The `best` different character ranges with their best scores; of equal scores earlier and shorter ones first."""
    starts = edges[chosen // lengths, 0]
    ends = edges[chosen // lengths + chosen % lengths, 1]
    order = np.lexsort((ends, starts, -scores))
    order = order[starts[order] < ends[order]]
    pairs = np.stack([starts[order], ends[order]], axis=1)  # [spans, 2]
    first = np.sort(np.unique(pairs, axis=0, return_index=True)[1])[:best]
    values = scores[order][first].tolist()
    return {(start, end): score for (start, end), score in zip(pairs[first].tolist(), values, strict=True)}


def _ranked(places: dict[tuple[int, int], float], null: float, context: str, best: int) -> AnswerCandidates:
    order = sorted(places, key=lambda place: (-places[place], place))[:best]
    scores = np.array([null, *(places[place] for place in order)], dtype=np.float64)
    finite = np.isfinite(scores)
    shares = np.where(finite, np.exp(scores - scores[finite].max()), 0.0) if finite.any() else np.zeros(len(scores))
    shares = shares / max(shares.sum(), np.finfo(np.float64).tiny)
    spans = tuple(
        Span(context[start:end], start, end, places[start, end], float(share))
        for (start, end), share in zip(order, shares[1:], strict=True)
    )
    return AnswerCandidates(spans, null - spans[0].score if spans else float("inf"), float(shares[0]))


# -- An answer span shown token by token, as in the lectures: [CLS] question [SEP] context [SEP], TK1, TK2, ... -------

WHITESPACE = "whitespace"


@dataclass(frozen=True, slots=True)
class TracedToken:
    """One token: name (TK1 for the first), text, part ("special", "question" or "context"), and character range in it
    (0, 0 for special tokens).
    """

    name: str
    text: str
    part: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Trace:
    """All tokens in order; start, end: names of the first and last answer token, None without an answer."""

    splitter: str
    tokens: tuple[TracedToken, ...]
    start: str | None
    end: str | None
    answer: str

    @property
    def num_tokens_without_end(self) -> int:
        return len(self.tokens) - (self.tokens[-1].part == "special")

    def to_json(self) -> dict[str, Any]:
        tokens = [{"name": token.name, "text": token.text, "part": token.part} for token in self.tokens]
        counts = {"num_tokens": len(tokens), "num_tokens_without_end": self.num_tokens_without_end}
        where = {"start": self.start, "end": self.end, "answer": self.answer}
        return {"splitter": self.splitter, **counts, **where, "tokens": tokens}

    def __str__(self) -> str:
        names = [token.name for token in self.tokens]
        inside = set(names[names.index(self.start) : names.index(self.end) + 1]) if self.start and self.end else set()
        wide = max(len(name) for name in names)
        rows = [f"{'>' if token.name in inside else ' '} {token.name:<{wide}}  {token.text}" for token in self.tokens]
        where = f"start={self.start} end={self.end} answer: {self.answer}" if inside else "no answer"
        counts = f"{len(self.tokens)} tokens ({self.splitter}), {self.num_tokens_without_end} without the final one"
        return "\n".join([f"{counts}; {where}", *rows])


def trace_answer(
    question: str, context: str, span: tuple[int, int] | None, tokenizer: Tokenizer | None = None
) -> Trace:
    """Returns the tokens of a question and its context, and those that contain the answer.

    span: character range of the answer in `context`, end exclusive; None for no answer. tokenizer: default: split on
    whitespace. Raises InputError if the span is not in the context or overlaps no token.
    """
    if span is not None and not 0 <= span[0] < span[1] <= len(context):
        raise InputError(f"The answer from character {span[0]} to {span[1]} is not in its context.")
    parts: list[tuple[str, str, int, int]]  # text, part, start, end
    if tokenizer is None:
        words = [
            [(match[0], part, match.start(), match.end()) for match in re.finditer(r"\S+", text)]
            for part, text in (("question", question), ("context", context))
        ]
        parts = [
            ("[CLS]", "special", 0, 0),
            *words[0],
            ("[SEP]", "special", 0, 0),
            *words[1],
            ("[SEP]", "special", 0, 0),
        ]
    else:
        encoding = tokenizer(question, context)
        names = {None: "special", 0: "question", 1: "context"}
        rows = zip(encoding.tokens, encoding.sequence_ids, encoding.offsets, strict=True)
        parts = [(text, names[sequence], *span) for text, sequence, span in rows]
    tokens = tuple(TracedToken(f"TK{number}", *part) for number, part in enumerate(parts, start=1))
    splitter = WHITESPACE if tokenizer is None else str(tokenizer.kind)
    if span is None:
        return Trace(splitter, tokens, None, None, "")
    touched = [t.name for t in tokens if t.part == "context" and t.start < span[1] and t.end > span[0]]
    if not touched:
        raise InputError(
            f"No token contains the answer {context[span[0] : span[1]]!r}: use a span that contains words."
        )
    return Trace(splitter, tokens, touched[0], touched[-1], context[span[0] : span[1]])
