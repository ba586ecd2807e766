"""Token sequences as padded arrays, the inputs of a graph. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Row = Sequence[int] | np.ndarray
IDS, MASK, TYPES = "input_ids", "attention_mask", "token_type_ids"
# Of networks that generate, as optimum and transformers.js name them.
POSITIONS, PAST, PRESENT = "position_ids", "past_key_values", "present"
MEMORY, MEMORY_MASK = "encoder_hidden_states", "encoder_attention_mask"
ENCODER, DECODER = "encoder_model", "decoder_model_merged"
TARGETS, TARGETS_MASK = "decoder_input_ids", "decoder_attention_mask"


def rectangle(rows: Sequence[Row], filler: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns rows padded at the right, and 1 for what is not padding: int64 [rows, longest row] each."""
    shape = (len(rows), max(1, *map(len, rows)))
    values, mask = np.full(shape, filler, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    for index, row in enumerate(rows):
        values[index, : len(row)], mask[index, : len(row)] = row, 1
    return values, mask


def pad_rows(
    spec: Mapping[str, Any], rows: Sequence[Row], types: Sequence[Row] | None, graph: str = "model"
) -> dict[str, np.ndarray]:
    """Returns the inputs of a graph without a cache: int64 [rows, longest row] each, padded at the right.

    spec: the entry "export" of maskwright.json; types: token types of each row, None for zeros; graph: its name.
    """
    ids, mask = rectangle(rows, int(spec["preprocessing"]["padding"]["id"]))
    kinds = np.zeros_like(ids) if types is None else rectangle(types, 0)[0]
    found = {IDS: ids, MASK: mask, TYPES: kinds}
    return {one["name"]: found[one["name"]] for one in spec["graphs"][graph]["inputs"]}
