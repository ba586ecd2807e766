"""Tokens of an inspected text: IDs, readable labels and character offsets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..core.errors import InputError
from ..core.progress import warn
from ..core.util import plural
from ..models.model import Model
from ..text.readers.inputs import Text
from ..text.tokenizers.encoding import Encoding
from ..text.tokenizers.tokenizer import Tokenizer
from ..text.words import find_word

SPACE = "·"  # shown before a byte-level token that starts a word


@dataclass(frozen=True)
class Tokens:
    """Tokens of a text; every list has one entry per token.

    text, text_pair: the texts; subwords: vocabulary entries; labels: readable form; offsets: start and end character in
    their text (0, 0 for special tokens); texts: 0 or 1, the text of a pair, None for special tokens; types: token type
    IDs; words: word index, None for special tokens; writes: for a decoder, the label of the next token; num_truncated:
    tokens beyond the maximum length, which are not in the lists.
    """

    text: str
    text_pair: str | None
    ids: tuple[int, ...]
    subwords: tuple[str, ...]
    labels: tuple[str, ...]
    offsets: tuple[tuple[int, int], ...]
    texts: tuple[int | None, ...]
    types: tuple[int, ...]
    words: tuple[int | None, ...]
    writes: tuple[str, ...] = ()
    num_truncated: int = 0

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def is_special(self) -> tuple[bool, ...]:
        """Whether each token is special: [CLS], [SEP], </s>."""
        return tuple(number is None for number in self.texts)

    def find(self, word: str) -> list[list[int]]:
        """Return the token indices of each occurrence of a whole word, or of a special token.

        Case as in `text.words.find_word`. Raises InputError if there is none.
        """
        named = [[index] for index, piece in enumerate(self.subwords) if piece == word and self.texts[index] is None]
        if named:
            return named
        found = []
        for number, text in enumerate((self.text, self.text_pair)):
            for span in find_word(text or "", word):
                own = [
                    index
                    for index, (start, end) in enumerate(self.offsets)
                    if self.texts[index] == number and start < span[1] and end > span[0]
                ]
                found += [own] if own else []
        if not found:
            shown = " ".join(self.labels[:40]) + (" …" if len(self) > 40 else "")
            raise InputError(f"'{word}' is not in the text: {shown}")
        return found

    def to_json(self) -> dict[str, Any]:
        """Return {"text", "tokens": [{"id", "token", "label", "start", "end", ...}]}."""
        rows = zip(self.ids, self.subwords, self.labels, self.offsets, self.texts, strict=True)
        tokens: list[dict[str, Any]] = [
            {"id": id, "token": piece, "label": label, "start": start, "end": end, "text": number}
            for id, piece, label, (start, end), number in rows
        ]
        for token, written in zip(tokens, self.writes, strict=False):
            token["writes"] = written
        pair = {} if self.text_pair is None else {"text_pair": self.text_pair}
        return {"text": self.text, **pair, "tokens": tokens}


def tokens_of(model: Model, tokenizer: Tokenizer, text: Text, max_length: int | None = None) -> Tokens:
    """Tokenize a text or pair, truncated to `max_length` (None: the model's maximum) with a warning.

    Raises InputError for a text without tokens.
    """
    most = min(max_length or model.config.max_position_embeddings, model.config.max_position_embeddings)
    encoding = tokenizer.encode_batch([text], most)[0]
    if encoding.num_truncated:
        warn(f"The text is truncated to {most} tokens ({plural(encoding.num_truncated, 'token')} removed).")
    if not len(encoding):
        raise InputError("The text has no tokens: pass some text.")
    return replace(_framed(encoding, tokenizer, text), num_truncated=encoding.num_truncated)


def source_tokens(tokenizer: Tokenizer, text: str, end: int, most: int) -> Tokens:
    """Tokenize one side of a translation, with the end token, truncated to `most`."""
    found = _framed(tokenizer.encode_batch([text])[0], tokenizer, text)
    closed = found if found.ids[-1:] == (end,) else _with_special(found, tokenizer, end, at_end=True)
    if len(closed) <= most:
        return closed
    warn(f"The text is truncated to {most} tokens ({plural(len(closed) - most, 'token')} removed).")
    kept = _with_special(_first(closed, most - 1), tokenizer, end, at_end=True)
    return replace(kept, num_truncated=len(closed) - most)


def target_tokens(tokenizer: Tokenizer, side: Tokens, start: int) -> Tokens:
    """Shift a target from `source_tokens` to decoder inputs and outputs."""
    own = _first(side, len(side), 1) if len(side) > 1 and side.ids[0] == start else side
    given = _with_special(_first(own, len(own) - 1), tokenizer, start, at_end=False)
    return replace(given, writes=own.labels, num_truncated=side.num_truncated)


def written_tokens(tokenizer: Tokenizer, ids: Sequence[int], start: int, end: int, is_ended: bool) -> Tokens:
    """Return decoder inputs and outputs of a generated text, given IDs without start and end token.

    If tokenizing the decoded text returns other tokens, offsets are unavailable.
    """
    text = tokenizer.decode(ids).strip()
    again = _framed(tokenizer.encode_batch([text])[0], tokenizer, text)
    kept = [index for index, number in enumerate(again.texts) if number is not None]
    if [again.ids[index] for index in kept] == list(ids):
        own = _chosen(again, kept)
    else:
        pieces = tuple(tokenizer.id_to_token(id) or str(id) for id in ids)
        count = len(pieces)
        own = Tokens(text, None, tuple(ids), pieces, pieces, ((0, 0),) * count, (0,) * count, (0,) * count,
                     tuple(range(count)))  # fmt: skip
    given = _with_special(own, tokenizer, start, at_end=False)
    last = tokenizer.id_to_token(end) or str(end)
    if is_ended:
        return replace(given, writes=(*own.labels, last))
    return replace(_first(given, len(given) - 1), writes=own.labels) if len(own) else replace(given, writes=(last,))


def _framed(encoding: Encoding, tokenizer: Tokenizer, text: Text) -> Tokens:
    first, second = (text, None) if isinstance(text, str) else (text[0], text[1])
    sides = (first, second or "")
    labels = tuple(
        piece if number is None else _label(tokenizer, piece, sides[number][start:end])
        for piece, (start, end), number in zip(encoding.tokens, encoding.offsets, encoding.sequence_ids, strict=True)
    )
    return Tokens(
        first,
        second,
        tuple(encoding.ids),
        tuple(encoding.tokens),
        labels,
        tuple((int(start), int(end)) for start, end in encoding.offsets),
        tuple(encoding.sequence_ids),
        tuple(encoding.type_ids),
        tuple(encoding.word_ids),
    )


def _label(tokenizer: Tokenizer, piece: str, stretch: str) -> str:
    """Return a readable label: for a byte-level token its characters of the text, else the token."""
    if tokenizer.word_markers.words != "bytes":
        return piece
    return (SPACE if piece.startswith("Ġ") else "") + (stretch.strip() or "␣")


def _first(tokens: Tokens, end: int, start: int = 0) -> Tokens:
    return _chosen(tokens, range(start, end))


def _chosen(tokens: Tokens, kept: Sequence[int]) -> Tokens:
    """Return the tokens `kept`, in that order."""

    def of(values: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(values[index] for index in kept)

    t = tokens
    return Tokens(t.text, t.text_pair, of(t.ids), of(t.subwords), of(t.labels), of(t.offsets), of(t.texts), of(t.types),
                  of(t.words))  # fmt: skip


def _with_special(tokens: Tokens, tokenizer: Tokenizer, id: int, *, at_end: bool) -> Tokens:
    piece = tokenizer.id_to_token(id) or str(id)

    def add(values: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
        return (*values, value) if at_end else (value, *values)

    t = tokens
    return Tokens(t.text, t.text_pair, add(t.ids, id), add(t.subwords, piece), add(t.labels, piece),
                  add(t.offsets, (0, 0)), add(t.texts, None), add(t.types, 0), add(t.words, None))  # fmt: skip
