"""Encodings: IDs with tokens, character offsets and types, and the number of truncated and unknown tokens.

An `Encoding` is a window on the subword tokens of one text or pair, with the special tokens of a template ([CLS] A
[SEP] B [SEP] for BERT). Windows share the tokens, so overflow costs nothing until it is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

from ...core.errors import InputError
from ...core.util import plural

TRUNCATIONS = ("longest_first", "only_first", "only_second")


class Pieces:  # terms: ok (SentencePiece's word; shared by tasks)
    """The subword tokens of one whole text, as encoded by the library; each list is converted once.

    offsets: start and end character of each token in its text; word_ids: index of the word in its text.
    """

    ids: list[int]
    tokens: list[str]
    offsets: list[tuple[int, int]]
    word_ids: list[int | None]
    special_tokens_mask: list[int]

    def __init__(self, raw: Any) -> None:
        self._raw = raw

    def __len__(self) -> int:
        return len(self._raw)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        value = getattr(self._raw, name)
        setattr(self, name, value)
        return value


class SpecialTokensTemplate(NamedTuple):
    """The special tokens of one text (`gaps` has 2 entries) or a pair (3): before, between, after.

    gaps: (ids, tokens, type_ids) of the special tokens at each position; type_ids: token type of each text.
    """

    gaps: tuple[tuple[list[Any], ...], ...]
    type_ids: tuple[int, ...]

    @property
    def num_special(self) -> int:
        """Number of special tokens added."""
        return sum(len(ids) for ids, _, _ in self.gaps)


class Padding(NamedTuple):
    """How to pad an encoding to `length` tokens, on one side."""

    length: int = 0
    left: bool = False
    id: int = 0
    token: str = "[PAD]"


class Truncation(NamedTuple):
    """Truncation settings: `room` tokens without special tokens (None: no limit), windows overlapping by `stride`."""

    room: int | None = None
    strategy: str = "longest_first"
    stride: int = 0
    left: bool = False


NO_TRUNCATION, NO_PADDING = Truncation(), Padding()


@dataclass(eq=False)
class Encoding:
    """One encoded text or pair.

    All lists have one entry per token: `ids`, `tokens`, `offsets` (start and end in the original text; (0, 0) for
    special tokens), `type_ids` (0 first text, 1 second), `special_tokens_mask` (1 special), `attention_mask`
    (0 padding), `word_ids` (index of the word in its text, None for special tokens), `sequence_ids` (0 or 1, None for
    special tokens).
    """

    pieces: tuple[Pieces, ...]  # terms: ok
    windows: tuple[tuple[int, int], ...]
    template: SpecialTokensTemplate
    unk_id: int | None = None
    cut: Truncation = NO_TRUNCATION
    padding: Padding = NO_PADDING
    is_overflow: bool = field(default=False, repr=False)

    def __len__(self) -> int:
        return max(self.template.num_special + sum(end - start for start, end in self.windows), self.padding.length)

    def __repr__(self) -> str:
        return f"Encoding(tokens={self.tokens}, num_truncated={self.num_truncated})"

    @cached_property
    def ids(self) -> list[int]:
        """Vocabulary IDs."""
        return self._joined(self._cut("ids"), [gap[0] for gap in self.template.gaps], self.padding.id)

    @cached_property
    def tokens(self) -> list[str]:
        """Token strings."""
        return self._joined(self._cut("tokens"), [gap[1] for gap in self.template.gaps], self.padding.token)

    @cached_property
    def type_ids(self) -> list[int]:
        """0 for the first text and its special tokens, 1 for the second."""
        return self._joined(self._constants(self.template.type_ids), [gap[2] for gap in self.template.gaps], 0)

    @cached_property
    def offsets(self) -> list[tuple[int, int]]:
        """Start and end character of each token in its text."""
        return self._framed(self._cut("offsets"), (0, 0), (0, 0))

    @cached_property
    def special_tokens_mask(self) -> list[int]:
        """1 for special tokens."""
        return self._framed(self._cut("special_tokens_mask"), 1, 1)

    @cached_property
    def attention_mask(self) -> list[int]:
        """1 for tokens, 0 for padding."""
        return self._framed(self._constants((1, 1)), 1, 0)

    @cached_property
    def word_ids(self) -> list[int | None]:
        """Index of the word in its text."""
        return self._framed(self._cut("word_ids"), None, None)

    @cached_property
    def sequence_ids(self) -> list[int | None]:
        """0 or 1: index of the text that a token comes from."""
        return self._framed(self._constants((0, 1)), None, None)

    @property
    def num_truncated(self) -> int:
        """Number of tokens of the texts that are not in this encoding."""
        return sum(map(len, self.pieces)) - sum(end - start for start, end in self.windows)

    @property
    def num_unknown(self) -> int:
        """Number of unknown tokens."""
        return 0 if self.unk_id is None else self.ids.count(self.unk_id)

    @cached_property
    def overflowing(self) -> list[Encoding]:
        """The truncated windows as further encodings; for a pair, all combinations of windows."""
        return [] if self.is_overflow else list(self._other_windows())

    def _other_windows(self) -> Iterator[Encoding]:
        rest = [
            [window for window in all_windows(len(piece), kept, self.cut) if window != kept]
            for piece, kept in zip(self.pieces, self.windows, strict=True)
        ]
        seconds = [(window,) for more in rest[1:] for window in more]
        others = [(first, *second) for first in rest[0] for second in (self.windows[1:], *seconds)]
        for windows in [*others, *((self.windows[0], *second) for second in seconds)]:
            yield replace(self, windows=windows, is_overflow=True)

    def _cut(self, name: str) -> list[list[Any]]:
        return [getattr(piece, name)[start:end] for piece, (start, end) in zip(self.pieces, self.windows, strict=True)]

    def _constants(self, values: tuple[Any, ...]) -> list[list[Any]]:
        return [[value] * (end - start) for value, (start, end) in zip(values, self.windows, strict=False)]

    def _joined(self, own: list[list[Any]], special: list[list[Any]], pad: Any) -> list[Any]:
        """Concatenates the tokens of the windows with special tokens, and padding on one side."""
        result = list(special[0])
        for entries, after in zip(own, special[1:], strict=True):
            result += entries
            result += after
        if len(result) >= self.padding.length:
            return result
        fill = [pad] * (self.padding.length - len(result))
        return fill + result if self.padding.left else result + fill

    def _framed(self, own: list[list[Any]], special: Any, pad: Any) -> list[Any]:
        """Like `_joined`, with the same entry for all special tokens."""
        return self._joined(own, [[special] * len(ids) for ids, _, _ in self.template.gaps], pad)


@dataclass
class TextCounts:
    """Token statistics of encoded texts, for one summary message."""

    texts: int = 0
    tokens: int = 0
    cut_texts: int = 0
    cut_tokens: int = 0
    unknown_tokens: int = 0
    special_tokens: int = 0

    def add(self, tokens: int, cut_tokens: int = 0, unknown_tokens: int = 0, special_tokens: int = 0) -> None:
        """Count one text (or pair) of `tokens` kept tokens, including `special_tokens`."""
        self.texts += 1
        self.tokens += tokens
        self.cut_texts += cut_tokens > 0
        self.cut_tokens += cut_tokens
        self.unknown_tokens += unknown_tokens
        self.special_tokens += special_tokens

    def include(self, other: TextCounts) -> None:
        """Adds the counts of other texts."""
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))

    @property
    def all_unknown(self) -> bool:
        """Whether there were texts and all of their tokens are unknown."""
        return 0 < self.unknown_tokens == self.tokens - self.special_tokens

    def note(self) -> str:
        """Returns one sentence on truncated and unknown tokens; empty if there were none."""
        parts = []
        if self.cut_texts:
            were = "was" if self.cut_texts == 1 else "were"
            texts, tokens = plural(self.texts, "text"), plural(self.cut_tokens, "token")
            parts.append(f"{self.cut_texts:,} of {texts} {were} truncated ({tokens} removed)")
        if self.unknown_tokens:
            parts.append(self.unknown_note())
        return "; ".join(parts) + ("." if parts else "")

    def unknown_note(self) -> str:
        """Returns the number of unknown tokens as part of a sentence."""
        are = "is" if self.unknown_tokens == 1 else "are"
        return f"{self.unknown_tokens:,} of {plural(self.tokens, 'token')} {are} unknown to the vocabulary"


def read_template(probe: Any, num_texts: int) -> SpecialTokensTemplate:
    """Returns the special tokens and types that the library adds to non-empty texts."""
    gaps: list[tuple[list[Any], ...]] = [([], [], []) for _ in range(num_texts + 1)]
    types = [0] * num_texts
    place = 0
    for sequence, *entry in zip(probe.sequence_ids, probe.ids, probe.tokens, probe.type_ids, strict=True):
        if sequence is not None:
            types[sequence] = entry[-1]
            place = sequence + 1
            continue
        for values, value in zip(gaps[place], entry, strict=True):
            values.append(value)
    return SpecialTokensTemplate(tuple(gaps), tuple(types))


def kept_lengths(lengths: tuple[int, ...], cut: Truncation) -> tuple[int, ...]:
    """Returns how many tokens of each text are kept if `cut.room` are allowed in total.

    Same rules as in the `tokenizers` library. Raises InputError if the text to truncate is too short.
    """
    total, room = sum(lengths), cut.room
    if room is None or total <= room:
        return lengths
    if room == 0:
        return (0,) * len(lengths)
    if cut.strategy == "longest_first":
        return (room,) if len(lengths) == 1 else _longest_first(lengths[0], lengths[1], room)
    which = TRUNCATIONS.index(cut.strategy) - 1
    if which >= len(lengths):
        raise InputError("truncation='only_second' needs a second text: pass a pair, or use 'longest_first'.")
    left = lengths[which] - (total - room)
    if left <= 0:
        name, other = ("first", "second") if which == 0 else ("second", "first")
        raise InputError(
            f"The {other} text by itself fills max_length: truncating only the {name} one "
            f"(truncation='{cut.strategy}') cannot make the pair fit. Raise max_length, or use 'longest_first'."
        )
    return tuple(left if index == which else length for index, length in enumerate(lengths))


def first_window(length: int, kept: int, cut: Truncation) -> tuple[int, int]:
    """Returns the window to keep: the first `kept` tokens, or the last ones when truncating on the left."""
    if kept < length and kept and cut.stride >= kept:
        raise InputError(
            f"stride={cut.stride} must be smaller than the {kept} tokens of a text in a window: "
            "lower stride or raise max_length."
        )
    return (length - kept, length) if cut.left else (0, kept)


def _longest_first(first: int, second: int, room: int) -> tuple[int, int]:
    """Truncates the longer text to the length of the shorter, then both evenly."""
    short, is_swapped = min(first, second), first > second
    long = short if short > room else max(short, room - short)
    if short + long > room:
        short, long = room // 2, room // 2 + room % 2
    return (long, short) if is_swapped else (short, long)


def all_windows(length: int, kept: tuple[int, int], cut: Truncation) -> list[tuple[int, int]]:
    """Returns every window of `kept`'s size over `length` tokens, adjacent ones overlapping by `cut.stride`."""
    size = kept[1] - kept[0]
    if size >= length:
        return [kept]
    if size == 0:
        return [kept, (0, length)]
    windows = []
    for start in range(0, length, size - cut.stride):
        end = min(start + size, length)
        windows.append((max(0, length - start - size), length - start) if cut.left else (start, end))
        if end == length:
            break
    return windows
