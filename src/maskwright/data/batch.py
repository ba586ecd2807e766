"""Packed batches: concatenated sequences without padding.

Linear layers, norms and losses run on `[tokens, hidden]`; only attention depends on sequence boundaries. It works on
runs of neighboring sequences of equal length, which are views `[count, length, ...]` without mask, gather or copy.
Sorting by length (`order_by_length`) before packing gives the longest runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, groupby

import numpy as np
import torch
from torch import Tensor

from ..core.randomness import generator
from ..nn.attention import Run, SequenceOffsets


@dataclass(frozen=True)
class Batch:
    """Packed sequences.

    Attributes:
        input_ids: int64 [tokens].
        cu_seqlens: int32 [sequences + 1] on the CPU, start of each sequence, and the end.
        position_ids: int64 [tokens].
        token_type_ids: int64 [tokens], None if all are 0.
        labels: Labels of a loss by name: "mlm_positions" int64 [labels] (token indices in the pack) and "mlm" int64
            [labels] (the original ids); "clm_positions" and "clm" the same, at the token before the target; "nsp" int64
            [sequences] (0 = B follows A, 1 = B is random); "sequence" [sequences] or [sequences, num_labels].
        places: int64 [tokens], position of each token in its text; None for contiguous tokens from 0.
        distances: int64 [length, length] per sequence, from each query to each key, if they do not follow from
            positions (data/parses.py), else None.
        global_tokens: bool [tokens], those with global attention; None for those that the model's head needs, if any.
        seen: int64 [sequences] on the CPU: how many first tokens of each sequence are attended to; None for all.
        target: Target sequences of an encoder-decoder, in the same order, or None.
    """

    input_ids: Tensor
    cu_seqlens: Tensor
    position_ids: Tensor
    token_type_ids: Tensor | None = None
    labels: Mapping[str, Tensor] = field(default_factory=dict)
    places: Tensor | None = None
    distances: tuple[Tensor, ...] | None = None
    global_tokens: Tensor | None = None
    seen: Tensor | None = None
    target: Batch | None = None

    @classmethod
    def from_sequences(
        cls,
        sequences: Sequence[Sequence[int] | np.ndarray],
        token_types: Sequence[Sequence[int] | np.ndarray] | None = None,
        labels: Mapping[str, Tensor] | None = None,
    ) -> Batch:
        """Packs `sequences` in the given order; positions count from 0 in each."""
        lengths = [len(sequence) for sequence in sequences]
        cu_seqlens = np.fromiter(accumulate(lengths, initial=0), dtype=np.int32, count=len(lengths) + 1)
        positions = np.arange(cu_seqlens[-1], dtype=np.int64)
        if len(lengths) > 1:
            positions -= np.repeat(cu_seqlens[:-1], lengths)
        types = None if token_types is None else torch.from_numpy(_concatenate(token_types))
        batch = cls(
            input_ids=torch.from_numpy(_concatenate(sequences)),
            cu_seqlens=torch.from_numpy(cu_seqlens),
            position_ids=torch.from_numpy(positions),
            token_type_ids=types,
            labels=labels or {},
        )
        # Cached properties, known here.
        batch.__dict__.update(lengths=lengths, position_range=(0, max(lengths, default=1) - 1))
        return batch

    @property
    def num_tokens(self) -> int:
        """Number of tokens in the pack."""
        return self.input_ids.shape[0]

    @property
    def num_all_tokens(self) -> int:
        """Number of tokens, including the target."""
        return self.num_tokens + (0 if self.target is None else self.target.num_tokens)

    @property
    def num_sequences(self) -> int:
        """Number of sequences in the pack."""
        return self.cu_seqlens.shape[0] - 1

    def __len__(self) -> int:
        return self.num_sequences

    @cached_property
    def lengths(self) -> list[int]:
        """Number of tokens of each sequence."""
        return self.cu_seqlens.diff().tolist()

    @cached_property
    def position_range(self) -> tuple[int, int]:
        """Lowest and highest position; the pack must not be empty."""
        return range_of(self.position_ids)

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """Runs of neighboring sequences of equal length, in order; empty sequences are in no run."""
        return tuple(_runs(self.lengths))

    @cached_property
    def ends(self) -> SequenceOffsets:
        """Sequence offsets on the device of the tokens, for kernels that process a whole pack."""
        return SequenceOffsets(
            self.cu_seqlens.to(self.input_ids.device, non_blocking=True), max(self.lengths, default=0)
        )

    @cached_property
    def first_tokens(self) -> Tensor:
        """Index of each sequence's first token in the pack: int64 [sequences]."""
        return self.ends.offsets[:-1].long()

    @cached_property
    def last_tokens(self) -> Tensor:
        """Index of each sequence's last token in the pack: int64 [sequences]. Sequences must not be empty."""
        return self.ends.offsets[1:].long() - 1

    def with_labels(self, **labels: Tensor) -> Batch:
        """Returns the pack with these labels added."""
        return replace(self, labels={**self.labels, **labels})

    def to(self, device: torch.device | str) -> Batch:
        """Moves the tensors to a device; `cu_seqlens` stays on the CPU, where attention plans its runs.

        Copies to a GPU use pinned memory and do not block.
        """
        device = torch.device(device)
        if device == self.input_ids.device:
            return self

        def pinned(tensor: Tensor) -> Tensor:
            return tensor.pin_memory() if device.type == "cuda" and not tensor.is_cuda else tensor

        def move(tensor: Tensor) -> Tensor:
            return pinned(tensor).to(device, non_blocking=True)

        return replace(
            self,
            input_ids=move(self.input_ids),
            cu_seqlens=pinned(self.cu_seqlens),
            position_ids=move(self.position_ids),
            token_type_ids=None if self.token_type_ids is None else move(self.token_type_ids),
            places=None if self.places is None else move(self.places),
            global_tokens=None if self.global_tokens is None else move(self.global_tokens),
            distances=None if self.distances is None else tuple(map(move, self.distances)),
            labels={name: move(value) for name, value in self.labels.items()},
            target=None if self.target is None else self.target.to(device),
        )


def range_of(ids: Tensor) -> tuple[int, int]:
    """Lowest and highest of integers, of which there is at least one."""
    lowest, highest = torch.aminmax(ids)
    return int(lowest), int(highest)


def order_by_length(lengths: Sequence[int] | np.ndarray) -> np.ndarray:
    """Indices that sort `lengths`, shortest first; equal lengths keep their order: int64 [sequences]."""
    return np.argsort(np.asarray(lengths), kind="stable")


def chunks_by_tokens(order: Sequence[int] | np.ndarray, lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Splits `order` into chunks of at most `budget` tokens (a longer sequence gets its own chunk)."""
    chunk: list[int] = []
    tokens = 0
    for index in order:
        if chunk and tokens + lengths[index] > budget:
            yield chunk
            chunk, tokens = [], 0
        chunk.append(int(index))
        tokens += lengths[index]
    if chunk:
        yield chunk


def _runs(lengths: Sequence[int]) -> Iterator[Run]:
    start = 0
    for length, group in groupby(lengths):
        count = sum(1 for _ in group)
        if length:
            yield Run(start, count, length)
        start += count * length


def _concatenate(sequences: Sequence[Sequence[int] | np.ndarray]) -> np.ndarray:
    if len(sequences) < 2:
        return np.array(sequences[0] if sequences else (), dtype=np.int64)
    return np.concatenate([np.asarray(sequence, dtype=np.int64) for sequence in sequences])


# -- Batches of similar sequence length with a fixed number of tokens (Vaswani et al. 2017, section 5.1) -------------


class TokenBatches:
    """Batches of at most `budget` tokens; a longer row gets its own batch.

    Rows are sorted by length and split into batches. The order of rows of equal length and the order of the batches are
    resampled in each epoch; the number of batches is the same in all epochs.
    """

    def __init__(self, lengths: np.ndarray, budget: int, seed: int) -> None:
        self.lengths, self.seed = np.asarray(lengths, dtype=np.int64), seed
        own = np.sort(self.lengths).tolist()
        self._sizes = [len(chunk) for chunk in chunks_by_tokens(range(len(own)), own, budget)]
        self._epoch: tuple[int, list[np.ndarray]] | None = None

    def __len__(self) -> int:
        return len(self._sizes)

    def rows(self, epoch: int, number: int) -> np.ndarray:
        """Batch `number` of an epoch: int64 [rows]."""
        if self._epoch is None or self._epoch[0] != epoch:
            self._epoch = (epoch, self._draw(epoch))
        return self._epoch[1][number]

    def _draw(self, epoch: int) -> list[np.ndarray]:
        draws = generator(self.seed, "order", epoch)
        order = draws.permutation(len(self.lengths))
        order = order[np.argsort(self.lengths[order], kind="stable")]
        batches = np.split(order, np.cumsum(self._sizes)[:-1])
        return [batches[place] for place in draws.permutation(len(batches))]


# -- Micro-batches of a step, dealt to processes so that each computes about equally many tokens ----------------------


Deal = Callable[[Sequence[int]], list[int]]
"""From the tokens of every micro-batch of a step to the numbers of those that one process computes, ascending.

A negative number counts from the last micro-batch and repeats it without effect: see `deal_equally_many`.
"""


def deal(tokens: Sequence[int], processes: int, most: int | None = None) -> list[list[int]]:
    """Deals micro-batches, largest first, each to the process with the fewest tokens so far.

    tokens: of each micro-batch. Returns the numbers of each process's micro-batches, ascending. Every process gets one
    with tokens before any gets a second; ties go to the lowest number, so all processes deal alike. most: of one
    process; None for any number.
    """
    dealt: list[list[int]] = [[] for _ in range(processes)]
    loads = [0] * processes
    for number in sorted(range(len(tokens)), key=lambda one: (-tokens[one], one)):
        able = [process for process in range(processes) if most is None or len(dealt[process]) < most]
        target = min(able, key=lambda process: (loads[process], len(dealt[process]), process))
        dealt[target].append(number)
        loads[target] += tokens[number]
    return [sorted(numbers) for numbers in dealt]


def deal_equally_many(tokens: Sequence[int], processes: int) -> list[list[int]]:
    """Deals as many micro-batches to every process, as sharded training requires, where each has the same collectives.

    Processes that would have fewer repeat the smallest one, under its negative number, without effect.
    """
    most = -(-len(tokens) // processes)
    smallest = min(range(len(tokens)), key=lambda number: (tokens[number], number), default=0) - len(tokens)
    return [own + [smallest] * (most - len(own)) for own in deal(tokens, processes, most)]


def everything(tokens: Sequence[int]) -> list[int]:
    """The deal of a single process: all micro-batches."""
    return list(range(len(tokens)))
