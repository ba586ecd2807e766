"""CUDA graphs of the whole encoder for small batches on a GPU.

A short request launches some hundred kernels of microseconds each, so launch overhead dominates; a CUDA graph launches
them all at once. Graphs have fixed sizes, so a batch is padded to the next size: tokens with an extra sequence that no
other attends to, sequences with empty ones. Attention reads the sequence offsets from memory (nn/attention.py), so one
graph serves every batch of its size.
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
from ...nn.attention import SequenceOffsets, missing
from .encoder import InferenceEncoder

TOKENS = (16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048)  # sizes of graphs
SEQUENCES = (1, 2, 4, 8, 16, 32, 64)
MAX_GRAPHS = 48  # the least recently used is evicted
USES = 3  # uses of a size before its graph is captured: capturing takes as long as dozens of replays

Replay = Callable[[], Tensor]


class Recorder(Protocol):
    """Captures a function without arguments as one that replays its kernels into the same output tensor."""

    def __call__(self, run: Callable[[], Tensor]) -> Replay: ...


@dataclass
class _Recorded:
    """A captured graph with its input tensors: ids, positions, types int64 [tokens]; offsets int32 [sequences + 1]."""

    ids: Tensor
    positions: Tensor
    types: Tensor
    offsets: Tensor
    replay: Replay


class Graphs:
    """Captured graphs of one inference encoder. record: captures a function; None for CudaRecorder.

    Supports small batches of models with full or causal attention in every layer.
    """

    def __init__(self, encoder: InferenceEncoder, record: Recorder | None = None) -> None:
        self.encoder, self._record = encoder, record or CudaRecorder()
        self._graphs: OrderedDict[tuple[int, int, bool], _Recorded] = OrderedDict()
        self._uses: dict[tuple[int, int, bool], int] = {}
        self._lock = Lock()  # two threads must not fill the same input tensors

    def size_for(self, batch: Batch) -> tuple[int, int, bool] | None:
        """Return tokens and sequences of the graph for a batch, and whether it has segments; None if too large."""
        tokens, sequences = bisect_left(TOKENS, batch.num_tokens), bisect_left(SEQUENCES, len(batch))
        if tokens == len(TOKENS) or sequences == len(SEQUENCES) or not batch.num_tokens:
            return None
        return TOKENS[tokens], SEQUENCES[sequences], batch.token_type_ids is not None

    def run(self, batch: Batch) -> Tensor | None:
        """Return the last layer of a batch, [tokens, hidden]; None if its size has no graph yet."""
        size = self.size_for(batch)
        if size is None or any(one is not None for one in (batch.places, batch.distances, batch.seen)):
            return None
        with self._lock:
            self._uses[size] = self._uses.get(size, 0) + 1
            if size not in self._graphs and self._uses[size] < USES:
                return None
            graph = self._graphs.pop(size, None) or self._recorded(size, batch)
            self._graphs[size] = graph
            if len(self._graphs) > MAX_GRAPHS:
                self._graphs.popitem(last=False)
            _fill(graph, batch)
            return graph.replay()[: batch.num_tokens].clone()

    def _recorded(self, size: tuple[int, int, bool], batch: Batch) -> _Recorded:
        tokens, sequences, has_types = size
        device = batch.input_ids.device
        ids, positions, types = (torch.zeros(tokens, dtype=torch.int64, device=device) for _ in range(3))
        offsets = torch.zeros(sequences + 2, dtype=torch.int32, device=device)
        whole = torch.tensor([0, tokens], dtype=torch.int32)  # attention uses `ends` instead
        pack = Batch(ids, whole, positions, types if has_types else None)
        ends = SequenceOffsets(offsets, tokens)
        graph = _Recorded(ids, positions, types, offsets, lambda: ids)
        _fill(graph, batch)
        graph.replay = self._record(lambda: self.encoder(pack, ends=ends).hidden)
        return graph


def _fill(graph: _Recorded, batch: Batch) -> None:
    """Copy a batch to the input tensors of its graph."""
    count, most = batch.num_tokens, len(graph.ids)
    graph.ids[:count].copy_(batch.input_ids, non_blocking=True)
    graph.positions[:count].copy_(batch.position_ids, non_blocking=True)
    if batch.token_type_ids is not None:
        graph.types[:count].copy_(batch.token_type_ids, non_blocking=True)
    for tensor in (graph.ids, graph.positions, graph.types):
        tensor[count:].zero_()
    offsets = torch.full((len(graph.offsets),), count, dtype=torch.int32)
    offsets[: len(batch) + 1] = batch.cu_seqlens
    offsets[-1] = most  # the last sequence is padding
    graph.offsets.copy_(offsets)


def why_no_graphs(encoder: InferenceEncoder, device: torch.device) -> str | None:
    """Return why small batches of an encoder do not use CUDA graphs on this device; None if they do."""
    config = encoder.encoder.config
    if device.type != "cuda":
        return f"CUDA graphs require a GPU, not {device.type}"
    if config.attention not in ("full", "causal") or any(one is not None for one in encoder.relatives):
        return "its attention is sparse or has relative positions"
    if config.token_dropout_id is not None:
        return "the factors of its token embeddings depend on the lengths of the texts"
    if config.upcast_attention:
        return "its attention is computed in float32"
    return missing(encoder.kernels.attention_dtype, device, config.head_dim)


class CudaRecorder:
    """Captures CUDA graphs on the current GPU.

    The graphs share a memory pool: they never run concurrently, and each result is copied before the next replay.
    """

    def __init__(self) -> None:
        self._pool: Any = None

    def __call__(self, run: Callable[[], Tensor]) -> Replay:
        """See Recorder. The function first runs on a side stream for warm-up, as torch requires."""
        current, side = torch.cuda.current_stream(), torch.cuda.Stream()
        side.wait_stream(current)
        with torch.cuda.stream(side):
            for _ in range(2):
                run()
        current.wait_stream(side)
        self._pool = self._pool or torch.cuda.graph_pool_handle()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            result = run()

        def replay() -> Tensor:
            graph.replay()
            return result

        return replay
