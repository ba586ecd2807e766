"""Token sequences as padded arrays, the inputs of a graph. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Row = Sequence[int] | np.ndarray
IDS, MASK, TYPES = "input_ids", "attention_mask", "token_type_ids"


def pad_rows(spec: Mapping[str, Any], rows: Sequence[Row], types: Sequence[Row] | None) -> dict[str, np.ndarray]:
    """Returns the inputs of a graph: int64 [rows, longest row] each, padded at the right.

    spec: the entry "export" of maskwright.json; types: token types of each row, None for zeros.
    """
    shape = (len(rows), max(1, *map(len, rows)))
    ids = np.full(shape, int(spec["preprocessing"]["padding"]["id"]), dtype=np.int64)
    mask, kinds = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    for index, row in enumerate(rows):
        ids[index, : len(row)], mask[index, : len(row)] = row, 1
        if types is not None:
            kinds[index, : len(row)] = types[index]
    found = {IDS: ids, MASK: mask, TYPES: kinds}
    return {one["name"]: found[one["name"]] for one in spec["graphs"]["model"]["inputs"]}
