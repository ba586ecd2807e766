"""An answer pointed at token by token, as the lectures draw it: [CLS] question [SEP] context [SEP], TK1, TK2, ...

Tokens are split at white space, as in the lectures, or by a tokenizer, which gives more: punctuation stands alone, and
rare words are several tokens. The trace names the splitter, because the numbers depend on it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..core.errors import InputError

if TYPE_CHECKING:
    from ..text.tokenizer import Tokenizer

WHITESPACE = "whitespace"


@dataclass(frozen=True, slots=True)
class TracedToken:
    """One token: its name (TK1 for the first), its text, the part it belongs to ("special", "question" or "context"),
    and its characters there (0, 0 for special tokens).
    """

    name: str
    text: str
    part: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Trace:
    """All tokens in order; start, end: names of the answer's first and last token, None without an answer."""

    splitter: str
    tokens: tuple[TracedToken, ...]
    start: str | None
    end: str | None
    answer: str

    def to_json(self) -> dict[str, Any]:
        """As JSON: {"splitter", "num_tokens", "start", "end", "answer", "tokens": [{"name", "text", "part"}, ...]}."""
        tokens = [{"name": token.name, "text": token.text, "part": token.part} for token in self.tokens]
        facts = {"splitter": self.splitter, "num_tokens": len(tokens), "start": self.start, "end": self.end}
        return {**facts, "answer": self.answer, "tokens": tokens}

    def __str__(self) -> str:
        """A table for people, the answer's tokens marked with >."""
        names = [token.name for token in self.tokens]
        inside = set(names[names.index(self.start) : names.index(self.end) + 1]) if self.start and self.end else set()
        wide = max(len(name) for name in names)
        rows = [f"{'>' if token.name in inside else ' '} {token.name:<{wide}}  {token.text}" for token in self.tokens]
        where = f"start={self.start} end={self.end} answer: {self.answer}" if inside else "no answer"
        return "\n".join([f"{len(self.tokens)} tokens ({self.splitter}); {where}", *rows])


def trace_answer(
    question: str, context: str, span: tuple[int, int] | None, tokenizer: Tokenizer | None = None
) -> Trace:
    """The tokens of a question and its context, and those that hold the answer.

    span: first character of the answer in `context` and the one behind its last; None for no answer. tokenizer: None
    splits at white space. Raises InputError when the span is no piece of the context, or touches no token.
    """
    if span is not None and not 0 <= span[0] < span[1] <= len(context):
        raise InputError(f"The answer goes from character {span[0]} to {span[1]}: that is no piece of its context.")
    pieces = _split_at_spaces(question, context) if tokenizer is None else _split_by(tokenizer, question, context)
    tokens = tuple(TracedToken(f"TK{place}", *piece) for place, piece in enumerate(pieces, start=1))
    splitter = WHITESPACE if tokenizer is None else str(tokenizer.kind)
    if span is None:
        return Trace(splitter, tokens, None, None, "")
    touched = [t.name for t in tokens if t.part == "context" and t.start < span[1] and t.end > span[0]]
    if not touched:
        raise InputError(f"No token holds the answer {context[span[0] : span[1]]!r}: name a piece with words in it.")
    return Trace(splitter, tokens, touched[0], touched[-1], context[span[0] : span[1]])


Piece = tuple[str, str, int, int]


def _split_at_spaces(question: str, context: str) -> list[Piece]:
    cls, sep = ("[CLS]", "special", 0, 0), ("[SEP]", "special", 0, 0)
    words = [
        [(match[0], part, match.start(), match.end()) for match in re.finditer(r"\S+", text)]
        for part, text in (("question", question), ("context", context))
    ]
    return [cls, *words[0], sep, *words[1], sep]


def _split_by(tokenizer: Tokenizer, question: str, context: str) -> list[Piece]:
    encoding = tokenizer(question, context)
    parts = {None: "special", 0: "question", 1: "context"}
    rows = zip(encoding.tokens, encoding.sequence_ids, encoding.offsets, strict=True)
    return [(text, parts[sequence], *span) for text, sequence, span in rows]
