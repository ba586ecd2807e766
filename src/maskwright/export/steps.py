"""Runs the graphs of an exported folder on batches, token by token where they have a cache. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .runtimes import (
    DECODER,
    ENCODER,
    IDS,
    MASK,
    MEMORY,
    MEMORY_MASK,
    PAST,
    POSITIONS,
    PRESENT,
    TARGETS,
    TARGETS_MASK,
    Arrays,
    Runtime,
    pad_rows,
    rectangle,
)


class CachedGraph:
    """A graph with cached keys and values, and the cache of some rows.

    graph: its description in maskwright.json; fixed: inputs that are the same in every call, a row for each row.
    """

    def __init__(self, runtime: Runtime, graph: Mapping[str, Any], num_rows: int, fixed: Arrays) -> None:
        self._runtime, self._fixed = runtime, dict(fixed)
        self._past = {
            one["name"]: np.zeros([num_rows, *(axis if isinstance(axis, int) else 0 for axis in one["axes"][1:])], "f4")
            for one in graph["inputs"]
            if one["name"].startswith(PAST)
        }

    def add(self, ids: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        """Adds tokens to every row: float32 logits [rows, new, vocab].

        ids: int64 [rows, new]; mask: 0 for padding before a row, where the graph has one; None for tokens alone.
        """
        found = self._runtime.run({**self._inputs(ids, mask), **self._fixed, **self._past})
        self._past = {name: found[name.replace(PAST, PRESENT, 1)] for name in self._past}
        return found["logits"]

    def _inputs(self, ids: np.ndarray, mask: np.ndarray | None) -> dict[str, np.ndarray]:
        return {IDS: ids}

    def keep(self, rows: np.ndarray) -> None:
        """Keeps only `rows`, int64 [kept], in that order; rows may repeat."""
        self._past = {name: one[rows] for name, one in self._past.items()}
        self._fixed = {name: one[rows] for name, one in self._fixed.items()}


class CausalGraph(CachedGraph):
    """The graph of a causal language model, whose rows may be padded at the left."""

    _mask: np.ndarray | None = None  # int64 [rows, tokens so far]

    def _inputs(self, ids: np.ndarray, mask: np.ndarray | None) -> dict[str, np.ndarray]:
        new = np.ones_like(ids) if mask is None else mask
        self._mask = whole = new if self._mask is None else np.concatenate([self._mask, new], axis=1)
        positions = np.clip(whole.cumsum(axis=1) - 1, 0, None)[:, -ids.shape[1] :]
        return {IDS: ids, MASK: whole, POSITIONS: positions}

    def keep(self, rows: np.ndarray) -> None:
        """See CachedGraph."""
        super().keep(rows)
        self._mask = None if self._mask is None else self._mask[rows]


def is_cached(spec: Mapping[str, Any]) -> bool:
    """Whether the graph of an exported folder has a cache. spec: the entry "export" of its maskwright.json."""
    return DECODER in spec["graphs"] or any(one["name"] == POSITIONS for one in spec["graphs"]["model"]["inputs"])


def pad_left(rows: Sequence[Sequence[int]], pad_id: int) -> tuple[np.ndarray, np.ndarray]:
    """Token IDs and mask of rows, padded at the left: int64 [rows, longest row] each."""
    ids, mask = rectangle([row[::-1] for row in rows], pad_id)
    return ids[:, ::-1].copy(), mask[:, ::-1].copy()


def encode_sources(
    runtime: Runtime, spec: Mapping[str, Any], rows: Sequence[Sequence[int] | np.ndarray]
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Encodes source texts: the inputs of the encoder, and those of the decoder that stay the same."""
    inputs = pad_rows(spec, rows, None, ENCODER)
    return inputs, {MEMORY: next(iter(runtime.run(inputs).values())), MEMORY_MASK: inputs[MASK]}


def run_batch(
    runtimes: Mapping[str, Runtime], spec: Mapping[str, Any], batch: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """Runs the graphs on a batch: its inputs and outputs by name.

    batch: {"ids": of each row, "types": the same or None}, optionally "targets" of each row or "choices", the rows of
    a question. A graph with a cache gets the tokens in several calls: the first half, two single ones, and the rest.
    """
    rows, types = batch["ids"], batch["types"]
    graph = spec["graphs"].get(DECODER) or spec["graphs"]["model"]
    if DECODER in spec["graphs"]:
        inputs, fixed = encode_sources(runtimes[ENCODER], spec, rows)
        ids, mask = rectangle(batch["targets"], 0)
        cached = CachedGraph(runtimes[DECODER], graph, len(rows), fixed)
        logits = [cached.add(ids[:, part]) for part in _parts(ids.shape[1])]
        return {**inputs, TARGETS: ids, TARGETS_MASK: mask, "logits": np.concatenate(logits, axis=1)}
    if is_cached(spec):
        ids, mask = pad_left(rows, int(spec["preprocessing"]["padding"]["id"]))
        cached = CausalGraph(runtimes["model"], graph, len(rows), {})
        logits = [cached.add(ids[:, part], mask[:, part]) for part in _parts(ids.shape[1])]
        return {IDS: ids, MASK: mask, "logits": np.concatenate(logits, axis=1)}
    inputs = pad_rows(spec, rows, types)
    if batch.get("choices"):
        inputs = {name: one.reshape(-1, batch["choices"], one.shape[1]) for name, one in inputs.items()}
    return inputs | runtimes["model"].run(inputs)


def _parts(length: int) -> list[slice]:
    """The columns of each call."""
    ends = sorted({min(end, length) for end in (max(length // 2, 1), length // 2 + 1, length // 2 + 2, length)})
    return [slice(start, end) for start, end in zip([0, *ends], ends, strict=False)]
