"""Tokenized rows and packed batches.

Rows are sorted by length within a batch, so that sequences of equal length share one attention call. The batch label
"example" contains the row of each sequence, to restore the row order of results.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ..core.errors import InputError
from ..core.memory import return_free_memory
from ..data.batch import Batch, chunks_by_tokens, order_by_length
from ..models.device import to_cpu_later
from ..text.readers.inputs import Text, split_pairs
from ..text.readers.tables import Row
from ..text.tokenizers.encoding import TextCounts

if TYPE_CHECKING:
    from ..models.model import Model
    from ..text.tokenizers.tokenizer import Tokenizer

BATCH_TOKENS_CPU = 2048  # activations of about this many tokens fit in the CPU cache
BATCH_TOKENS_GPU = 65536
TOKENIZE_ROWS = 4096  # rows per block, to limit the memory of the tokenizer library
TOKENIZE_CHARACTERS = 1 << 20  # characters per block, where offsets are kept too


def content_of(row: Any) -> Text:
    """The text of a row, or both texts of a pair, as tokenizer input."""
    return row.text if row.text_pair is None else (row.text, row.text_pair)


@dataclass(frozen=True)
class Examples:
    """Tokenized rows: input_ids, for each row int32 [tokens]; token_types, int8 [tokens], None without second texts.

    targets: int64 [rows] (class numbers), float32 [rows] (scores), float32 [rows, labels] (1.0 where the label
    applies), or None for unlabeled rows; counts: truncated and unknown tokens; num_skipped: number of bad rows that
    were skipped; features: vectors of the sequences that were computed once, float32 [sequences, size].
    """

    input_ids: Sequence[np.ndarray]
    token_types: Sequence[np.ndarray] | None = None
    targets: Tensor | None = None
    rows: Sequence[Any] = field(default=(), repr=False)
    counts: TextCounts = field(default_factory=TextCounts)
    num_skipped: int = 0
    features: Tensor | None = field(default=None, kw_only=True, repr=False)

    def __len__(self) -> int:
        return len(self.input_ids)

    @property
    def num_rows(self) -> int:
        """Number of rows; subclasses may split a long row into several examples."""
        return len(self)

    @property
    def num_truncated(self) -> int:
        return self.counts.cut_texts

    @property
    def sequences(self) -> Examples:
        """The model inputs: one sequence per row, or one per window."""
        return self

    @cached_property
    def lengths(self) -> np.ndarray:
        """Tokens of each row with special tokens: int64 [rows]."""
        return np.fromiter((len(ids) for ids in self.input_ids), dtype=np.int64, count=len(self))

    def batch(self, indices: Sequence[int] | np.ndarray) -> Batch:
        """Packs the rows `indices`, shortest first.

        Batch labels: "example" int64 [sequences], row of each sequence; "sequence" [sequences, ...], its target, and
        "features" [sequences, size], if the examples have targets and features.
        """
        chosen = np.asarray(indices, dtype=np.int64)
        chosen = chosen[order_by_length(self.lengths[chosen])]
        labels = {"example": torch.from_numpy(chosen)}
        if self.targets is not None:
            labels["sequence"] = self.targets[labels["example"]]
        if self.features is not None:
            labels["features"] = self.features[labels["example"]]
        types = None if self.token_types is None else [self.token_types[index] for index in chosen]
        return Batch.from_sequences([self.input_ids[index] for index in chosen], types, labels)

    def groups(self) -> list[Sequence[int]]:
        """Sequences that inference packs together, as indices into `input_ids`: all of them."""
        return [range(len(self.input_ids))]

    def subset(self, chosen: np.ndarray) -> Examples:
        """Returns some of the sequences, without rows and targets. chosen: indices into `input_ids`."""
        types = self.token_types
        return Examples(
            [self.input_ids[index] for index in chosen],
            None if types is None else [types[index] for index in chosen],
        )

    def limit_windows(self, max_windows: int) -> Examples:
        """Keeps at most `max_windows` windows of each text, evenly spaced from the first to the last."""
        return self

    def portions(self, indices: Sequence[int] | np.ndarray) -> list[np.ndarray]:
        """Splits a batch into micro-batches: only one, unless rows can be very long."""
        return [np.asarray(indices, dtype=np.int64)]


@dataclass
class RowCounts(TextCounts):
    """Counts that also record whether each text was truncated, and forward everything to `total`."""

    total: TextCounts = field(default_factory=TextCounts)
    was_cut: list[bool] = field(default_factory=list)

    def add(self, tokens: int, cut_tokens: int = 0, unknown_tokens: int = 0, special_tokens: int = 0) -> None:
        self.was_cut.append(cut_tokens > 0)
        self.total.add(tokens, cut_tokens, unknown_tokens, special_tokens)


def tokenize_rows(
    rows: Sequence[Row],
    tokenizer: Tokenizer,
    max_length: int | None,
    targets: Tensor | None = None,
    counts: TextCounts | None = None,
) -> Examples:
    """Tokenizes `rows` to at most `max_length` tokens each (None: no limit), truncating the longer text first.

    counts: accumulates truncated and unknown tokens; default: new counts.
    """
    counts = TextCounts() if counts is None else counts
    has_pairs = any(row.text_pair is not None for row in rows)
    input_ids, token_types = [], []
    for start in range(0, len(rows), TOKENIZE_ROWS):
        block = rows[start : start + TOKENIZE_ROWS]
        pairs = [row.text_pair for row in block]
        ids, types = tokenizer.encode_ids([row.text for row in block], max_length, pairs=pairs, counts=counts)
        input_ids += [np.asarray(row, dtype=np.int32) for row in ids]
        if has_pairs:
            token_types += [np.asarray(row, dtype=np.int8) for row in types]
    return Examples(input_ids, token_types if has_pairs else None, targets, rows, counts)


def rows_of(texts: Iterable[Text], labels: Sequence[str] | None = None) -> list[Row]:
    """Converts texts or (text, second text) pairs to rows, with line numbers from 1.

    Raises InputError for any other item.
    """
    firsts, seconds = split_pairs(texts)
    gold = [None] * len(firsts) if labels is None else labels
    return [
        Row(first, second, label, number, "the texts")
        for number, (first, second, label) in enumerate(zip(firsts, seconds, gold, strict=True), start=1)
    ]


def blocks(rows: Iterable[Any], num_rows: int, num_characters: int) -> Iterator[list[Any]]:
    """Splits a stream into lists of at most `num_rows` rows; a list also ends when it reaches `num_characters`."""
    block: list[Any] = []
    characters = 0
    for row in rows:
        block.append(row)
        characters += len(row.text) + len(row.text_pair or "")
        if len(block) == num_rows or characters >= num_characters:
            yield block
            block, characters = [], 0
    if block:
        yield block


def packed_batches(examples: Examples, device: torch.device, batch_tokens: int | None = None) -> Iterator[Batch]:
    """All rows, shortest first, in batches of at most `batch_tokens` tokens (default: depends on the device)."""
    budget = batch_tokens or _usual_tokens(device)
    for chunk in chunks_by_tokens(order_by_length(examples.lengths), examples.lengths.tolist(), budget):
        yield examples.batch(chunk).to(device)


def _usual_tokens(device: torch.device) -> int:
    return BATCH_TOKENS_CPU if device.type == "cpu" else BATCH_TOKENS_GPU


def as_logits(probabilities: Tensor, is_each: bool = False) -> Tensor:
    """Converts probabilities [rows, labels] to finite logits, for a softmax or, if `is_each`, a sigmoid per label."""
    tiny = torch.finfo(torch.float32).tiny
    known = probabilities.double().clamp(min=tiny)
    return known.log() - (1 - probabilities.double()).clamp(min=tiny).log() if is_each else known.log()


def map_batches(
    examples: Examples,
    function: Callable[[Batch], Tensor],
    *,
    device: torch.device,
    batch_tokens: int | None = None,
) -> Tensor:
    """Applies `function` to packed batches of at most `batch_tokens` tokens and restores the row order.

    function: Batch -> float [sequences, ...], called in inference mode; batch_tokens: default depends on the device.
    Returns float32 [rows, ...] on the CPU. `examples` must not be empty.
    """
    result: Tensor | None = None
    with torch.inference_mode():
        for batch in packed_batches(examples, device, batch_tokens):
            values = function(batch).float().cpu()  # [sequences, ...]
            if result is None:
                result = values.new_empty(len(examples), *values.shape[1:])
            result[batch.labels["example"].cpu()] = values
    assert result is not None, "map_batches needs at least one row"
    return result.clone()  # a normal tensor, usable outside inference mode


# -- The middle one of the three steps of inference: what a model computes for packed sequences ----------------------
#
#     prepare   texts -> sequences (`Examples`) and their own counts of truncated and unknown tokens
#     compute   sequences -> one tensor for each: `compute` packs those of one call, a server those of several calls
#     finish    tensors -> answers
#
# Sequences do not affect each other in a pack, so a sequence gets the same result in any company.

PACKS_PER_TRIM = 32  # packs after which free memory goes back to the operating system: about 1% of the time


@dataclass(frozen=True)
class Forward(ABC):
    """What a model computes for a pack of sequences; sequences with equal forwards can share a pack."""

    model: Model

    @abstractmethod
    def launch(self, batch: Batch) -> Callable[[], Sequence[Tensor]]:
        """Starts to compute a pack, in inference mode.

        Returns a function that waits for a tensor for each sequence of the pack, in order, float on the CPU.
        """

    def __call__(self, batch: Batch) -> Sequence[Tensor]:
        """Returns a tensor for each sequence of the pack, in order, float on the CPU. Called in inference mode."""
        return self.launch(batch)()

    @property
    def device(self) -> torch.device:
        """Where the model computes. Walking all parameters takes too long for a short request; a probe has no table."""
        table = getattr(self.model, "word_embeddings", None)
        return (next(self.model.parameters()) if table is None else table).device


@dataclass(frozen=True)
class SequenceLogits(Forward):
    """Logits of a head with one output for each sequence: float32 [labels]."""

    def launch(self, batch: Batch) -> Callable[[], Sequence[Tensor]]:
        return each(self.model.logits(batch).float())


@dataclass(frozen=True)
class TokenLogits(Forward):
    """Logits of a head with one output for each token: float32 [tokens, labels]."""

    def launch(self, batch: Batch) -> Callable[[], Sequence[Tensor]]:
        return each(self.model.logits(batch).float(), batch.lengths)


def each(values: Tensor, lengths: Sequence[int] | None = None) -> Callable[[], Sequence[Tensor]]:
    """Returns a function that waits for values, [sequences or tokens, ...], and returns those of each sequence.

    lengths: tokens of each sequence, for values of tokens.
    """
    wait = to_cpu_later(values)
    return lambda: wait().unbind() if lengths is None else wait().split(list(lengths))


def compute(forward: Forward, examples: Examples, batch_tokens: int | None = None) -> list[Tensor]:
    """Runs all sequences of `examples`, windows too, in packs of at most `batch_tokens` tokens.

    Returns the output of `forward` for each sequence, in order.
    """
    return launch(forward, examples, batch_tokens)()


def launch(forward: Forward, examples: Examples, batch_tokens: int | None = None) -> Callable[[], list[Tensor]]:
    """Starts what `compute` does; the function that is returned waits for the last pack.

    A pack is prepared and launched before the results of the one before it are read, so a GPU does not wait.
    """
    found: list[Tensor | None] = [None] * len(examples.input_ids)
    device, packs = forward.device, 0
    launched: list[tuple[list[int], Callable[[], Sequence[Tensor]]]] = []

    def keep(most: int) -> None:
        """Reads all packs but the last `most`."""
        while len(launched) > most:
            places, outputs = launched.pop(0)
            for place, output in zip(places, outputs(), strict=True):
                found[place] = output

    def finish() -> list[Tensor]:
        keep(0)
        return [output for output in found if output is not None]

    with torch.inference_mode():
        for chosen in examples.groups():
            own = examples.subset(np.asarray(chosen))
            order = np.argsort(own.lengths, kind="stable")
            for chunk in chunks_by_tokens(order, own.lengths.tolist(), batch_tokens or _usual_tokens(device)):
                packs += 1
                if packs % PACKS_PER_TRIM == 0:
                    return_free_memory()
                batch = own.batch(chunk)
                places = [chosen[place] for place in batch.labels["example"].tolist()]
                launched.append((places, forward.launch(batch.to(device))))
                keep(1)
    return finish


def stacked(outputs: Sequence[Tensor]) -> Tensor:
    """Returns equal-sized outputs as rows: float32 [sequences, ...], a normal tensor, usable outside inference mode."""
    return torch.stack(list(outputs)).float()


def finite_only(logits: Tensor) -> Tensor:
    """Returns the logits. Raises InputError if any is not finite."""
    if not bool(torch.isfinite(logits).all()):
        raise InputError(
            "The model's outputs are not finite: its weights are damaged, or they overflow at this precision; try "
            "--precision fp32."
        )
    return logits
