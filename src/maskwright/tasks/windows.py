"""Rows as windows: a long text becomes several overlapping sequences, each with the special tokens.

Of a pair only one text (usually the second, the context) is split into windows; the other one is kept whole, or
truncated to half of the available length. Batch sizes count rows: a batch contains all windows of its rows. Inference
batches single windows, so its memory does not depend on the row length.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
import torch
from torch import Tensor

from ..core.config import check, check_at_least, check_not_negative, fit_types, from_dict
from ..core.errors import ConfigError, InputError
from ..core.registry import unknown_name
from ..core.util import plural
from ..data.batch import Batch, chunks_by_tokens, order_by_length
from ..text.readers.tables import Row
from ..text.tokenizers.encoding import Encoding, TextCounts, Truncation, all_windows
from .examples import TOKENIZE_CHARACTERS, TOKENIZE_ROWS, Examples, blocks, content_of, tokenize_rows
from .qa.windows import default_stride

if TYPE_CHECKING:
    from ..text.tokenizers.tokenizer import Tokenizer

# -- Settings for texts longer than the maximum sequence length: truncation, or overlapping windows with pooled logits
#
# The logits of a text with one window are exactly those of that window.

WAYS = ("cut", "windows")
MAX_WINDOWS = 32  # per row in training; predictions have no limit


@dataclass(frozen=True)
class LongTexts:
    """Window settings for long texts. Raises ConfigError for a value out of range.

    stride: overlap of neighboring windows in tokens, at most half of the text of a window (default: a third of
    max_length, at most 128); pool: of the logits of the windows; max_windows: per row in training, evenly spaced;
    both_orders: encode each pair twice instead, truncated, as (A, B) and (B, A), and pool the logits (Radford et al.
    2018, figure 1, similarity).
    """

    stride: int | None = None
    pool: Literal["mean", "max"] = "mean"
    max_windows: int = MAX_WINDOWS
    both_orders: bool = False

    def __post_init__(self) -> None:
        fit_types(self)
        check_not_negative(self, "stride")
        check_at_least(self, 1, "max_windows")

    @classmethod
    def of(
        cls,
        long: str = "cut",
        stride: int | None = None,
        pool: Any = "mean",
        max_windows: int = MAX_WINDOWS,
        both_orders: bool = False,
    ) -> LongTexts | None:
        """Builds the settings; None for truncation. long: one of WAYS. Raises ConfigError."""
        if long not in WAYS:
            raise ConfigError(unknown_name("way with long texts", str(long), WAYS))
        if both_orders:
            is_plain = long == "cut" and stride is None and pool == "mean" and max_windows == MAX_WINDOWS
            check(is_plain, "Setting 'both_orders' cannot be combined with windows: it truncates each pair.")
            return cls(both_orders=True)
        found = cls(stride, pool, max_windows)
        if long == "windows":
            return found
        strange = [name for name, value in vars(cls()).items() if getattr(found, name) != value]
        check(not strange, f"Setting '{', '.join(strange)}' requires long = windows: add --long windows.")
        return None

    @classmethod
    def for_embeddings(
        cls, facts: Mapping[str, Any], long: str | None = None, stride: int | None = None, pooling: str | None = None
    ) -> LongTexts | None:
        """Settings for embeddings: the given ones, otherwise those of the sentence encoder (facts: its
        maskwright.json). Texts are truncated for token embeddings (pooling "none"). Raises ConfigError.
        """
        is_own = long is None and pooling != "none" and facts.get("task") == "similarity"
        if is_own and facts.get("long") is not None:
            found = cls.from_json(facts["long"])
            return found if stride is None else replace(found, stride=stride)
        return cls.of(long or "cut", stride)

    def shared(self, size: int, max_length: int) -> int:
        """Overlap of neighboring windows in tokens; size: text tokens per window."""
        wanted = default_stride(max_length) if self.stride is None else self.stride
        return min(wanted, size // 2)

    def pooled(self, logits: Tensor, counts: Sequence[int]) -> Tensor:
        """Pools logits, float [windows, labels], over the `counts` windows of each text: float [rows, labels]."""
        parts = logits.split(list(counts))
        how = torch.mean if self.pool == "mean" else torch.amax
        return torch.stack([how(part, dim=0) for part in parts])

    def to_json(self) -> dict[str, Any]:
        found = vars(self).copy()
        return found if self.both_orders else {name: value for name, value in found.items() if name != "both_orders"}

    @classmethod
    def from_json(cls, facts: Any) -> LongTexts:
        check(isinstance(facts, Mapping), "'long' of maskwright.json is not an object.")
        return from_dict(cls, facts, "'long' of maskwright.json")


FIRST, LAST = 0, -1  # which text of a pair is split into windows
TRAIN_TOKENS = 16384  # maximum tokens per micro-batch, unless a single row has more


@dataclass(frozen=True)
class LongExamples(Examples):
    """Rows as windows: `input_ids` and `token_types` have one entry per window, row by row; `targets` one per row.

    starts: int64 [rows + 1], number of windows before each row; spans: int64 [windows, 2], character range of each
    window in its text (of a pair, the text that is split), end exclusive; num_dropped_windows: windows of
    num_limited_rows rows that training skips.
    """

    starts: np.ndarray = field(default_factory=lambda: np.zeros(1, dtype=np.int64), repr=False)
    spans: np.ndarray = field(default_factory=lambda: np.zeros((0, 2), dtype=np.int64), repr=False)
    num_dropped_windows: int = 0
    num_limited_rows: int = 0

    def __len__(self) -> int:
        return len(self.starts) - 1

    @cached_property
    def lengths(self) -> np.ndarray:
        sizes = np.concatenate([[0], np.cumsum(self.sequences.lengths)])
        found: np.ndarray = np.diff(sizes[self.starts])
        return found

    @cached_property
    def sequences(self) -> Examples:
        return Examples(self.input_ids, self.token_types)

    @cached_property
    def num_windows(self) -> np.ndarray:
        return np.diff(self.starts)

    def place(self, row: int, window: int, score: float) -> dict[str, Any]:
        """{"window" (from 0), "windows" (their number), "start", "end" (characters), "score"} of a window of a row."""
        start, end = self.spans[self.starts[row] + window].tolist()
        return {"window": window, "windows": int(self.num_windows[row]), "start": start, "end": end, "score": score}

    def batch(self, indices: Sequence[int] | np.ndarray) -> Batch:
        """Packs all windows of the rows `indices`, shortest first.

        Batch labels: "example" int64 [sequences], row of each sequence; "window" int64 [sequences], index of its
        window; "order" int64 [sequences], indices that sort the sequences by row; "windows" int64 [rows], number of
        windows per row in that order; "sequence" [rows, ...], targets in that order, if there are targets.
        """
        chosen = np.asarray(indices, dtype=np.int64)
        chosen = chosen[order_by_length(self.lengths[chosen])]
        counts = self.num_windows[chosen]
        windows = np.concatenate([np.arange(self.starts[row], self.starts[row + 1]) for row in chosen])
        order = order_by_length(self.sequences.lengths[windows])
        labels = {
            "example": torch.from_numpy(np.repeat(chosen, counts)[order]),
            "window": torch.from_numpy(windows[order]),
            "order": torch.from_numpy(np.argsort(order, kind="stable")),
            "windows": torch.from_numpy(counts),
        }
        if self.targets is not None:
            labels["sequence"] = self.targets[torch.from_numpy(chosen)]
        if self.features is not None:
            labels["features"] = self.features[labels["window"]]
        return replace(self.subset(windows).batch(np.arange(len(windows))), labels=labels)

    def portions(self, indices: Sequence[int] | np.ndarray) -> list[np.ndarray]:
        return portions_by_tokens(indices, self.lengths)

    def limit_windows(self, max_windows: int) -> LongExamples:
        counts, most = self.num_windows, max_windows
        if not (counts > max_windows).any():
            return self
        parts = [
            start + (np.arange(count) if count <= most else np.arange(most) * (count - 1) // max(most - 1, 1))
            for start, count in zip(self.starts, counts, strict=False)
        ]
        kept = np.concatenate(parts)  # evenly spaced, with the first and the last window of a row
        found = self.subset(kept)
        return replace(
            self,
            input_ids=found.input_ids,
            token_types=found.token_types,
            starts=np.concatenate([[0], np.cumsum(np.minimum(counts, max_windows))]),
            spans=self.spans[kept],
            num_dropped_windows=len(self.input_ids) - len(kept),
            num_limited_rows=int((counts > max_windows).sum()),
        )

    def groups(self) -> list[Sequence[int]]:
        """First windows apart from the others, so that their results equal those of truncated rows."""
        is_first = np.zeros(len(self.input_ids), dtype=bool)
        is_first[self.starts[:-1]] = True
        return [chosen.tolist() for chosen in (np.flatnonzero(is_first), np.flatnonzero(~is_first)) if len(chosen)]


@dataclass(frozen=True)
class GroupedExamples(Examples):
    """Rows of several texts each; every text is a sequence of its own, or several windows.

    `input_ids` and `token_types` have one entry per window, text by text; everything else refers to rows. texts: those
    of all rows, row by row, or with `is_by_place` the first texts of all rows, then the second ones.
    """

    is_by_place: ClassVar[bool] = False

    texts: LongExamples = field(default_factory=lambda: LongExamples([]), repr=False)
    num_texts: int = 1

    def __len__(self) -> int:
        return len(self.texts) // self.num_texts

    @cached_property
    def lengths(self) -> np.ndarray:
        return self._by_row(self.texts.lengths).sum(axis=1)

    def _by_row(self, values: np.ndarray) -> np.ndarray:
        """Numbers of texts in the order of `texts`, as [rows, texts]."""
        return values.reshape(self.num_texts, -1).T if self.is_by_place else values.reshape(-1, self.num_texts)

    def batch(self, indices: Sequence[int] | np.ndarray) -> Batch:
        """Packs all windows of all texts of rows, shortest first. Labels: "example" int64 [rows]; "places" int64 [rows,
        texts], indices of their texts after pooling windows; "sequence" [rows], the targets; "order" and "windows", see
        LongExamples.batch.
        """
        rows = np.asarray(indices, dtype=np.int64)
        chosen = self._by_row(np.arange(len(self.texts)))[rows]
        chosen = (chosen.T if self.is_by_place else chosen).ravel()
        order = order_by_length(self.texts.lengths[chosen])
        places = np.empty_like(order)
        places[order] = np.arange(len(order))
        labels = {"example": torch.from_numpy(rows), "places": torch.from_numpy(self._by_row(places))}
        if self.targets is not None:
            labels["sequence"] = self.targets[labels["example"]]
        packed = self.texts.batch(chosen)
        return replace(packed, labels=labels | {name: packed.labels[name] for name in ("order", "windows")})

    def groups(self) -> list[Sequence[int]]:
        return self.texts.groups()

    def limit_windows(self, max_windows: int) -> Self:
        fewer = self.texts.limit_windows(max_windows)
        return replace(self, input_ids=fewer.input_ids, token_types=fewer.token_types, texts=fewer)


def one_window_each(found: Examples) -> LongExamples:
    """Sequences as rows of one window."""
    return LongExamples(found.input_ids, found.token_types, starts=np.arange(len(found) + 1))


def portions_by_tokens(indices: Sequence[int] | np.ndarray, lengths: np.ndarray) -> list[np.ndarray]:
    """Splits rows into groups of at most TRAIN_TOKENS tokens; a longer row is its own group. lengths: int64 [rows]."""
    chunks = chunks_by_tokens(indices, lengths.tolist(), TRAIN_TOKENS)
    return [np.asarray(chunk, dtype=np.int64) for chunk in chunks]


def window_notes(examples: LongExamples, name: str, max_length: int, noun: str = "row") -> list[str]:
    """Notes about windows: their number, how many of them training skips, and truncated first texts of pairs.

    noun: what the examples are made from, in the singular.
    """
    num_windows, found = len(examples.input_ids) + examples.num_dropped_windows, []
    if num_windows > len(examples):
        make = plural(len(examples), f"{name} {noun} makes", f"{name} {noun}s make")
        found.append(f"{make} {num_windows:,} windows of at most {max_length} tokens.")
    if examples.num_limited_rows:
        have = plural(examples.num_limited_rows, f"{name} {noun} has", f"{name} {noun}s have")
        most = plural(int(examples.num_windows.max()), "window")
        dropped = plural(examples.num_dropped_windows, "window is", "windows are")
        used = f"training uses that many, evenly spaced, and {dropped} skipped (max_windows)"
        found.append(f"{have} more than {most}; {used}.")
    if examples.num_truncated:
        rows = plural(examples.num_truncated, f"{name} row")
        found.append(f"The first text of {rows} is truncated; only the second one is split into windows.")
    return found


def window_rows(
    rows: Sequence[Row],
    tokenizer: Tokenizer,
    max_length: int | None,
    long: LongTexts,
    targets: Tensor | None = None,
    counts: TextCounts | None = None,
    side: int = LAST,
) -> LongExamples:
    """Tokenizes `rows` as windows of at most `max_length` tokens (None: one window per row).

    counts: accumulates unknown tokens, and truncated tokens of texts that are not split; side: FIRST or LAST, the text
    of a pair to split. Raises InputError if max_length leaves no room for text.
    """
    counts = TextCounts() if counts is None else counts
    has_pairs = any(row.text_pair is not None for row in rows)
    input_ids: list[np.ndarray] = []
    token_types: list[np.ndarray] = []
    spans: list[tuple[int, int]] = []
    starts = [0]
    for block in blocks(rows, TOKENIZE_ROWS, TOKENIZE_CHARACTERS):
        texts = [content_of(row) for row in block]
        for row, encoding in zip(block, tokenizer.encode_batch(texts), strict=True):
            windows = text_windows(encoding, max_length, long, side)
            input_ids += [np.asarray(window.ids, dtype=np.int32) for window in windows]
            if has_pairs:
                token_types += [np.asarray(window.type_ids, dtype=np.int8) for window in windows]
            shown = row.text if row.text_pair is None or side == FIRST else row.text_pair
            spans += [(0, len(shown))] if len(windows) == 1 else [_characters(window, side) for window in windows]
            starts.append(len(input_ids))
            cut = 0  # of the text that is not split; every other token counts once
            if len(encoding.pieces) == 2:
                start, end = windows[0].windows[-1 - side]
                cut = len(encoding.pieces[-1 - side]) - (end - start)
            counts.add(len(encoding) - cut, cut, encoding.num_unknown, encoding.template.num_special)
    return LongExamples(
        input_ids,
        token_types if has_pairs else None,
        targets,
        rows,
        counts,
        starts=np.asarray(starts, dtype=np.int64),
        spans=np.asarray(spans, dtype=np.int64).reshape(-1, 2),
    )


def rows_both_ways(
    rows: Sequence[Row],
    tokenizer: Tokenizer,
    max_length: int | None,
    targets: Tensor | None = None,
    counts: TextCounts | None = None,
) -> LongExamples:
    """Tokenizes pairs as (A, B) and (B, A), two sequences per row, truncated to `max_length`; a single text as one."""
    counts = TextCounts() if counts is None else counts
    swapped = [replace(row, text=row.text_pair, text_pair=row.text) for row in rows if row.text_pair is not None]
    there = tokenize_rows(rows, tokenizer, max_length, counts=counts)
    back = tokenize_rows(swapped, tokenizer, max_length)  # the same texts: not counted again
    types = None if there.token_types is None else [*there.token_types, *(back.token_types or ())]
    is_pair = np.array([row.text_pair is not None for row in rows], dtype=bool)
    starts = np.concatenate([[0], np.cumsum(1 + is_pair)])
    order = np.argsort(np.concatenate([starts[:-1], starts[:-1][is_pair] + 1]))
    found = Examples([*there.input_ids, *back.input_ids], types).subset(order)
    spans = np.zeros((len(order), 2), dtype=np.int64)
    return LongExamples(found.input_ids, found.token_types, targets, rows, counts, starts=starts, spans=spans)


def text_windows(whole: Encoding, max_length: int | None, long: LongTexts, side: int = LAST) -> list[Encoding]:
    """Splits a text, or one text of a pair, into windows; each window of a pair also contains the other text.

    whole: the text or pair, not truncated; side: FIRST or LAST, the text of a pair to split. Raises InputError if
    max_length leaves no room for text.
    """
    if max_length is None or len(whole) <= max_length:
        return [whole]
    room = max_length - whole.template.num_special
    if room < 1:
        raise InputError(f"max_length={max_length} leaves no room for text after the special tokens: raise it.")
    length = len(whole.pieces[side])
    kept: tuple[tuple[int, int], ...] = ()
    if len(whole.pieces) == 2:
        other = min(len(whole.pieces[-1 - side]), max(room // 2, room - length))
        kept, room = ((0, other),), room - other
    size = min(length, room)
    cuts = all_windows(length, (0, size), Truncation(stride=long.shared(size, max_length)))
    return [replace(whole, windows=(cut, *kept) if side == FIRST else (*kept, cut)) for cut in cuts]


def _characters(window: Encoding, side: int) -> tuple[int, int]:
    start, end = window.windows[side]
    shown = [span for span in window.pieces[side].offsets[start:end] if span[1] > span[0]]
    return (min(begin for begin, _ in shown), max(stop for _, stop in shown)) if shown else (0, 0)
