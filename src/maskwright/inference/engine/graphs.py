"""Small batches on a GPU: the whole encoder as one recorded graph of kernels, replayed.

A request of a few dozen tokens is some hundred kernels of microseconds each, and to start each one takes as long: the
GPU waits for Python. A recorded graph starts them all at once. It has fixed sizes, so a pack is filled up to the next
size: its tokens by a last sequence of their own, which no other sees, its sequences by empty ones. What attends takes
the ends of sequences as numbers in memory (nn/varlen.py), so one graph serves every pack of its size.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Any, Protocol

import torch
from torch import Tensor

from ...data.batch import Batch
from ...nn.varlen import Ends, missing
from .encoder import FixedEncoder

TOKENS = (16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048)  # sizes of graphs
SEQUENCES = (1, 2, 4, 8, 16, 32, 64)
MOST_GRAPHS = 48  # the least recently used goes first
USES = 3  # of a size before its graph is recorded: recording takes as long as dozens of replays

Replay = Callable[[], Tensor]


class Recorder(Protocol):
    """Turns a function without arguments into one that replays its kernels and returns the same tensor, refilled."""

    def __call__(self, run: Callable[[], Tensor]) -> Replay: ...


@dataclass
class _Recorded:
    """A graph with the places that it reads. ids, positions, types: int64 [tokens]; offsets: int32 [sequences + 1]."""

    ids: Tensor
    positions: Tensor
    types: Tensor
    offsets: Tensor
    replay: Replay


class Graphs:
    """The recorded graphs of one fixed encoder. record: how; None for CudaRecorder.

    Only packs of few tokens are taken, of networks in which every layer attends to all, or to all before.
    """

    def __init__(self, encoder: FixedEncoder, record: Recorder | None = None) -> None:
        self.encoder, self._record = encoder, record or CudaRecorder()
        self._graphs: OrderedDict[tuple[int, int, bool], _Recorded] = OrderedDict()
        self._uses: dict[tuple[int, int, bool], int] = {}
        self._lock = Lock()  # two threads must not fill the same places

    def size_for(self, batch: Batch) -> tuple[int, int, bool] | None:
        """Tokens and sequences of the graph for a pack, and whether it has segments; None where it is too large."""
        tokens, sequences = bisect_left(TOKENS, batch.num_tokens), bisect_left(SEQUENCES, len(batch))
        if tokens == len(TOKENS) or sequences == len(SEQUENCES) or not batch.num_tokens:
            return None
        return TOKENS[tokens], SEQUENCES[sequences], batch.token_type_ids is not None

    def run(self, batch: Batch) -> Tensor | None:
        """The last layer of a pack, [tokens, hidden]; None while its size has no graph."""
        size = self.size_for(batch)
        if size is None or batch.places is not None or batch.distances is not None:
            return None
        with self._lock:
            self._uses[size] = self._uses.get(size, 0) + 1
            if size not in self._graphs and self._uses[size] < USES:
                return None
            graph = self._graphs.pop(size, None) or self._recorded(size, batch)
            self._graphs[size] = graph
            if len(self._graphs) > MOST_GRAPHS:
                self._graphs.popitem(last=False)
            _fill(graph, batch)
            return graph.replay()[: batch.num_tokens].clone()

    def _recorded(self, size: tuple[int, int, bool], batch: Batch) -> _Recorded:
        tokens, sequences, has_types = size
        device = batch.input_ids.device
        ids, positions, types = (torch.zeros(tokens, dtype=torch.int64, device=device) for _ in range(3))
        offsets = torch.zeros(sequences + 2, dtype=torch.int32, device=device)
        whole = torch.tensor([0, tokens], dtype=torch.int32)  # what the pack says of itself: nothing asks it for more
        pack = Batch(ids, whole, positions, types if has_types else None)
        ends = Ends(offsets, tokens)
        graph = _Recorded(ids, positions, types, offsets, lambda: ids)
        _fill(graph, batch)
        graph.replay = self._record(lambda: self.encoder(pack, ends=ends).hidden)
        return graph


def _fill(graph: _Recorded, batch: Batch) -> None:
    """Put a pack where its graph reads."""
    count, most = batch.num_tokens, len(graph.ids)
    graph.ids[:count].copy_(batch.input_ids, non_blocking=True)
    graph.positions[:count].copy_(batch.position_ids, non_blocking=True)
    if batch.token_type_ids is not None:
        graph.types[:count].copy_(batch.token_type_ids, non_blocking=True)
    for tensor in (graph.ids, graph.positions, graph.types):
        tensor[count:].zero_()
    offsets = torch.full((len(graph.offsets),), count, dtype=torch.int32)
    offsets[: len(batch) + 1] = batch.cu_seqlens
    offsets[-1] = most  # the last sequence is what fills the pack up
    graph.offsets.copy_(offsets)


def why_no_graphs(encoder: FixedEncoder, device: torch.device) -> str | None:
    """Why a fixed encoder's small packs are not replayed on this device; None where they are."""
    config = encoder.encoder.config
    if device.type != "cuda":
        return f"graphs are recorded on GPUs, not on {device.type}"
    if config.attention not in ("full", "causal") or any(one is not None for one in encoder.relatives):
        return "its attention follows a rule, or distances"
    return missing(encoder.attention_dtype, device, config.head_dim)


class CudaRecorder:
    """Records on the current GPU. Its graphs share their working memory: they are never replayed side by side, and what
    one has found is copied before the next begins.
    """

    def __init__(self) -> None:
        self._pool: Any = None

    def __call__(self, run: Callable[[], Tensor]) -> Replay:
        """See Recorder. The function runs a few times before, beside the current stream, as torch asks."""
        current, beside = torch.cuda.current_stream(), torch.cuda.Stream()
        beside.wait_stream(current)
        with torch.cuda.stream(beside):
            for _ in range(2):
                run()
        current.wait_stream(beside)
        self._pool = self._pool or torch.cuda.graph_pool_handle()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            result = run()

        def replay() -> Tensor:
            graph.replay()
            return result

        return replay
