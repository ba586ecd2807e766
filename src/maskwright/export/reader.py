"""Runs an exported folder in a separate process, without torch, and stores the outputs.

    python -m maskwright.export.reader FOLDER REQUEST RESULT

REQUEST: JSON, a list of batches of {"texts": [text or [text, pair]]} or {"ids": [...], "types": [...] or null}; with
"choices": the rows of a batch in groups of that size; with "targets": token IDs of the target of each row. RESULT: an
.npz with the inputs and outputs of each batch, as "0/input_ids".
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .runtimes import open_runtime
from .steps import run_batch


def main(folder: Path, request: Path, result: Path) -> None:
    """Run every batch of the request."""
    spec = json.loads((folder / "maskwright.json").read_text(encoding="utf-8"))["export"]
    threads = int(os.environ.get("OMP_NUM_THREADS", "0") or 0) or None
    runtimes = {graph: open_runtime(folder, spec, threads, graph) for graph in spec["graphs"]}
    found: dict[str, np.ndarray] = {}
    for number, batch in enumerate(json.loads(request.read_text(encoding="utf-8"))):
        rows, types = _encoded(folder, spec, batch)
        for name, array in run_batch(runtimes, spec, {**batch, "ids": rows, "types": types}).items():
            found[f"{number}/{name}"] = array
    assert "torch" not in sys.modules
    name = next(iter(runtimes.values())).name
    np.savez(result, **found, runtime=np.array(name))  # type: ignore[arg-type]  # arrays by name


def _encoded(
    folder: Path, spec: Mapping[str, Any], batch: Mapping[str, Any]
) -> tuple[Sequence[Sequence[int]], Sequence[Sequence[int]] | None]:
    """The token IDs and types of a batch, by the `tokenizers` library alone where it has texts."""
    if "ids" in batch:
        return batch["ids"], batch["types"]
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / spec["preprocessing"]["tokenizer"]))
    tokenizer.no_padding()
    tokenizer.enable_truncation(spec["max_length"], strategy=spec["preprocessing"]["truncation"]["strategy"])
    encoded = tokenizer.encode_batch([text if isinstance(text, str) else tuple(text) for text in batch["texts"]])
    return [one.ids for one in encoded], [one.type_ids for one in encoded]


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
