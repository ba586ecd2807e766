"""An answer span shown token by token, as in the lectures: [CLS] question [SEP] context [SEP], TK1, TK2, ...

Tokens are split on whitespace, as in the lectures, or by a tokenizer, which also splits punctuation and rare words. The
trace names the splitter, because token numbers depend on it, and counts tokens with and without the final [SEP].
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...core.errors import InputError

if TYPE_CHECKING:
    from ...text.tokenizers.tokenizer import Tokenizer

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
        """Number of tokens without the final special token."""
        return len(self.tokens) - (self.tokens[-1].part == "special")

    def to_json(self) -> dict[str, Any]:
        """As JSON: "splitter", "num_tokens", "num_tokens_without_end", "start", "end", "answer", and "tokens", each
        with "name", "text" and "part".
        """
        tokens = [{"name": token.name, "text": token.text, "part": token.part} for token in self.tokens]
        facts = {
            "splitter": self.splitter,
            "num_tokens": len(tokens),
            "num_tokens_without_end": self.num_tokens_without_end,
            "start": self.start,
            "end": self.end,
        }
        return {**facts, "answer": self.answer, "tokens": tokens}

    def __str__(self) -> str:
        """A readable table with the answer tokens marked by >."""
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
    parts = _split_at_spaces(question, context) if tokenizer is None else _split_by(tokenizer, question, context)
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


TokenPart = tuple[str, str, int, int]  # text, part, start, end


def _split_at_spaces(question: str, context: str) -> list[TokenPart]:
    cls, sep = ("[CLS]", "special", 0, 0), ("[SEP]", "special", 0, 0)
    words = [
        [(match[0], part, match.start(), match.end()) for match in re.finditer(r"\S+", text)]
        for part, text in (("question", question), ("context", context))
    ]
    return [cls, *words[0], sep, *words[1], sep]


def _split_by(tokenizer: Tokenizer, question: str, context: str) -> list[TokenPart]:
    encoding = tokenizer(question, context)
    parts = {None: "special", 0: "question", 1: "context"}
    rows = zip(encoding.tokens, encoding.sequence_ids, encoding.offsets, strict=True)
    return [(text, parts[sequence], *span) for text, sequence, span in rows]
