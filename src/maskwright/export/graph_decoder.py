"""Incremental decoding with exported graphs that have a cache; implements `rules.Decoder`.

Rows do not affect each other. A dynamic int8 graph scales the activations of a batch together, so each row runs alone.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..models.decoding.steps import check_max_new_tokens, start_token
from ..models.encoder_decoder import EncoderDecoder
from .padding import DECODER, ENCODER
from .runtimes import Runtime
from .steps import CachedGraph, CausalGraph, encode_sources, pad_left


def is_dynamic(spec: Mapping[str, Any]) -> bool:
    """Whether a graph scales the activations of a batch together. spec: the entry "export" of maskwright.json."""
    return bool(spec.get("quantization", {}).get("activations") == "dynamic")


class GraphDecoder(ABC):
    """Decodes the rows of one cached graph, or of one for each row. spec: the entry "export" of maskwright.json."""

    def __init__(self, spec: Mapping[str, Any], num_rows: int) -> None:
        self.spec, self._alone, self._num_rows = spec, is_dynamic(spec), num_rows
        self._graphs: list[CachedGraph] = []

    @abstractmethod
    def _read(self, rows: list[int]) -> tuple[CachedGraph, np.ndarray]:
        """Starts a graph for `rows`: the graph, and float32 logits [rows, ..., vocab]."""

    def start(self) -> Tensor:
        """Reads what the rows begin with: float32 logits [rows, vocab] of the next token."""
        rows = list(range(self._num_rows))
        started = [self._read(own) for own in ([[row] for row in rows] if self._alone else [rows])]
        self._graphs = [graph for graph, _ in started]
        return _last([logits for _, logits in started])

    def step(self, tokens: Tensor) -> Tensor:
        """Appends one token to each row, int64 [rows]: float32 logits [rows, vocab] of the next token."""
        ids = tokens.cpu().numpy()[:, None]
        parts = ids[:, None] if self._alone else ids[None]  # of each graph [rows, 1]
        return _last([graph.add(part) for graph, part in zip(self._graphs, parts, strict=True)])

    def keep(self, rows: Tensor, *, same_texts: bool = False) -> None:
        """Keeps only `rows`, int64 [kept], in that order; rows may repeat. same_texts: not needed here."""
        self._num_rows = len(rows)
        if self._alone:
            self._graphs = [copy.copy(self._graphs[row]) for row in rows.tolist()]
        else:
            self._graphs[0].keep(rows.cpu().numpy())


class CausalGraphDecoder(GraphDecoder):
    """Decodes with the graph of a causal language model.

    prompts: token IDs of each row; window: context length in tokens. A row that fills it continues with the last half
    of its tokens in a new window, as in `CausalDecoder`.
    """

    def __init__(
        self, runtime: Runtime, spec: Mapping[str, Any], prompts: Sequence[Sequence[int]], window: int
    ) -> None:
        super().__init__(spec, len(prompts))
        self._runtime, self._room = runtime, window
        self._windows = [list(prompt)[-window:] for prompt in prompts]

    def step(self, tokens: Tensor) -> Tensor:
        """See GraphDecoder."""
        for window, token in zip(self._windows, tokens.tolist(), strict=True):
            window.append(token)
        if max(map(len, self._windows)) <= self._room:
            return super().step(tokens)
        kept = max(self._room // 2, 1)
        self._windows = [one[-kept:] if len(one) > self._room else one for one in self._windows]
        return self.start()

    def keep(self, rows: Tensor, *, same_texts: bool = False) -> None:
        """See GraphDecoder."""
        super().keep(rows)
        self._windows = [list(self._windows[row]) for row in rows.tolist()]

    def _read(self, rows: list[int]) -> tuple[CachedGraph, np.ndarray]:
        ids, mask = pad_left([self._windows[row] for row in rows], int(self.spec["preprocessing"]["padding"]["id"]))
        graph = CausalGraph(self._runtime, self.spec["graphs"]["model"], len(rows), {})
        return graph, graph.add(ids, mask)


class TargetGraphDecoder(GraphDecoder):
    """Decodes with the graphs of an encoder-decoder. sources: token IDs of each row.

    Raises InputError as `TargetDecoder`.
    """

    def __init__(
        self,
        runtimes: Mapping[str, Runtime],
        spec: Mapping[str, Any],
        model: EncoderDecoder,
        sources: Sequence[np.ndarray],
        max_new_tokens: int,
    ) -> None:
        super().__init__(spec, len(sources))
        check_max_new_tokens(model, max_new_tokens)
        self.start_id = start_token(model)
        self._runtimes, self._sources = runtimes, sources

    def _read(self, rows: list[int]) -> tuple[CachedGraph, np.ndarray]:
        _, fixed = encode_sources(self._runtimes[ENCODER], self.spec, [self._sources[row] for row in rows])
        graph = CachedGraph(self._runtimes[DECODER], self.spec["graphs"][DECODER], len(rows), fixed)
        return graph, graph.add(np.full((len(rows), 1), self.start_id))


def _last(logits: Sequence[np.ndarray]) -> Tensor:
    """Those of the last token. logits: of each graph, float32 [rows, new, vocab]."""
    return torch.from_numpy(np.concatenate([one[:, -1] for one in logits]))
