"""Compares the outputs of a graph with those of the library: nothing is published that differs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..core import storage
from ..core.errors import ModelFolderError, shortened
from ..data.batch import Batch
from ..models.heads import ChoiceHead, VectorHead
from ..models.model import Model
from ..models.pooling import pool
from ..models.pretraining_heads import NextSentenceHead
from .network import EMBEDDING, POOLED, STATES, PaddedNetwork, Pooling
from .padding import IDS, MASK, TYPES, pad_rows
from .trial_texts import Trial

VECTORS = (STATES, EMBEDDING, POOLED)
MOST_DIFFERENCE = 1e-4  # of the largest number of an output


@dataclass(frozen=True)
class OutputAgreement:
    """How one output of a graph agrees with the library.

    largest_difference: as a fraction of the largest number of the output; min_cosine, mean_cosine: of vectors, or for
    one number per text its correlation, else None; same_class: fraction of equal highest-scoring classes, None for
    vectors and single numbers; compared: number of vectors or rows of logits.
    """

    largest_difference: float
    compared: int
    min_cosine: float | None = None
    mean_cosine: float | None = None
    same_class: float | None = None

    def shortfall(self, name: str) -> str:
        """Returns how the output is beyond the limits, "" if it is within."""
        if not np.isfinite(self.largest_difference):
            return f"{name} is not finite"
        if self.largest_difference > MOST_DIFFERENCE:
            return f"{name} differs by {self.largest_difference:.2g} (at most {MOST_DIFFERENCE:g})"
        return ""


@dataclass(frozen=True)
class Agreement:
    """Agreement of a graph with the library. runtime: that ran the graph; num_texts: of the comparison."""

    runtime: str
    num_texts: int
    outputs: dict[str, OutputAgreement]

    def shortfalls(self) -> list[str]:
        """Returns what is beyond the limits."""
        return [found for name, one in self.outputs.items() if (found := one.shortfall(name))]

    def to_json(self) -> dict[str, Any]:
        """The form of maskwright.json."""
        return asdict(self)


def measure(network: PaddedNetwork, folder: Path, spec: Mapping[str, Any], trials: Sequence[Trial]) -> Agreement:
    """Runs the graph of an exported folder on trials in a process without torch, and compares."""
    with TemporaryDirectory() as temporary:
        request, result = Path(temporary) / "request.json", Path(temporary) / "result.npz"
        storage.write_json(request, [trial.to_json() for trial in trials])
        command = [sys.executable, "-m", "maskwright.export.reader", str(folder), str(request), str(result)]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        if run.returncode:
            lines = run.stderr.strip().split("\n")
            reason = next((line for line in reversed(lines) if "Error" in line), lines[-1])
            raise ModelFolderError(f"The exported graph does not run: {shortened(reason.rstrip('.'), 500)}.")
        with np.load(result) as found:
            arrays = {name: found[name] for name in found.files}
    return compare(network, spec, trials, arrays)


def measure_program(network: PaddedNetwork, path: Path, spec: Mapping[str, Any], trials: Sequence[Trial]) -> Agreement:
    """The same for a torch program, in this process; `path` was just written."""
    return measure_module(network, torch.export.load(path).module(), spec, trials)


def measure_module(
    network: PaddedNetwork, module: torch.nn.Module, spec: Mapping[str, Any], trials: Sequence[Trial]
) -> Agreement:
    """The same for a module that torch runs in this process."""
    arrays: dict[str, np.ndarray] = {"runtime": np.array(f"torch {torch.__version__}")}
    for number, trial in enumerate(trials):
        inputs = pad_rows(spec, trial.ids, trial.types)
        if trial.choices:
            inputs = {name: one.reshape(-1, trial.choices, one.shape[1]) for name, one in inputs.items()}
        with torch.inference_mode():
            outputs = module(*(torch.from_numpy(one) for one in inputs.values()))
        arrays |= {f"{number}/{name}": one for name, one in inputs.items()}
        arrays |= {f"{number}/{name}": one.numpy() for name, one in zip(network.outputs, outputs, strict=True)}
    return compare(network, spec, trials, arrays)


def compare(
    network: PaddedNetwork, spec: Mapping[str, Any], trials: Sequence[Trial], arrays: Mapping[str, np.ndarray]
) -> Agreement:
    """Compares outputs with the library. arrays: as `reader` stores them. Raises ModelFolderError for other tokens."""
    axes = {one["name"]: one["axes"] for one in spec["graphs"]["model"]["outputs"]}
    pairs: dict[str, tuple[list[np.ndarray], list[np.ndarray]]] = {name: ([], []) for name in network.outputs}
    count = 0
    for number, trial in enumerate(trials):
        own = {name: arrays[f"{number}/{name}"] for name in (*network.inputs, *network.outputs)}
        _check_tokens(network.model, trial, own, spec["max_length"])
        expected, keep = _expected(network, own), own[MASK] != 0
        count += len(keep)
        for name, (graph, library) in pairs.items():
            found = own[name][keep] if "sequence" in axes[name] else own[name]  # by token, or by row
            graph.append(found.reshape(len(found), -1))
            library.append(expected[name].reshape(len(found), -1))
    outputs = {name: _agreement(name, *pair) for name, pair in pairs.items()}
    return Agreement(str(arrays["runtime"]), count, outputs)


def _agreement(name: str, graph: Sequence[np.ndarray], library: Sequence[np.ndarray]) -> OutputAgreement:
    found, expected = np.concatenate(graph).astype(np.float64), np.concatenate(library).astype(np.float64)
    difference = float(np.abs(found - expected).max(initial=0.0) / max(np.abs(expected).max(initial=0.0), 1e-9))
    if not np.isfinite(found).all():
        difference = float("nan")
    if name in VECTORS:
        cosines = _cosines(found, expected)
        return OutputAgreement(difference, len(found), float(cosines.min()), float(cosines.mean()))
    if found.shape[1] == 1 or name in ("start_logits", "end_logits"):
        return OutputAgreement(difference, len(found), _correlation(found.ravel(), expected.ravel()))
    same = float((found.argmax(axis=1) == expected.argmax(axis=1)).mean())
    return OutputAgreement(difference, len(found), same_class=same)


def _cosines(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Cosine similarity of each row."""
    lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    return (one * other).sum(axis=1) / np.maximum(lengths, 1e-12)


def _correlation(one: np.ndarray, other: np.ndarray) -> float:
    if one.std() < 1e-9 or other.std() < 1e-9:
        return 1.0 if np.allclose(one, other, atol=1e-3) else 0.0
    return float(np.corrcoef(one, other)[0, 1])


def _sequences(own: Mapping[str, np.ndarray]) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
    """The unpadded token IDs and types of each row."""
    ids, mask = (own[name].reshape(-1, own[name].shape[-1]) for name in (IDS, MASK))
    types = own[TYPES].reshape(ids.shape) if TYPES in own else None
    for row, keep in enumerate(mask != 0):
        yield ids[row][keep], None if types is None else types[row][keep]


def _check_tokens(model: Model, trial: Trial, own: Mapping[str, np.ndarray], max_length: int) -> None:
    if not trial.texts or model.tokenizer is None:
        return
    expected, _ = model.tokenizer.encode_ids(list(trial.texts), max_length)
    found = [ids.tolist() for ids, _ in _sequences(own)]
    if found != expected:
        raise ModelFolderError(
            "The tokenizer of this model gives other tokens outside of maskwright: its tokenizer.json is not complete."
        )


def _expected(network: PaddedNetwork, own: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs of the library for the tokens of a batch: by token in the order of the rows, or by row."""
    rows = list(_sequences(own))
    types = [kinds for _, kinds in rows if kinds is not None]
    batch = Batch.from_sequences([ids for ids, _ in rows], types or None)
    with torch.inference_mode():
        found = library_outputs(network.model, batch, network.pooling, network.outputs)
    if isinstance(network.model.head, ChoiceHead):
        found = {name: one.reshape(own[MASK].shape[:2]) for name, one in found.items()}
    return {name: one.float().numpy() for name, one in found.items()}


def library_outputs(model: Model, batch: Batch, pooling: Pooling, names: Sequence[str]) -> dict[str, Tensor]:
    """The outputs of a graph by the packed path: [tokens, ...] or [sequences, ...] each."""
    head = model.head
    if head is None:
        hidden = model.encode(batch).hidden
        vectors = pool(hidden.float(), batch, pooling.method)
        found = {STATES: hidden, EMBEDDING: F.normalize(vectors, dim=-1) if pooling.normalize else vectors}
        return found | ({POOLED: model.pool(hidden, batch)} if POOLED in names else {})
    if names == ("start_logits", "end_logits"):
        start, end = model.logits(batch).unbind(-1)
        return {"start_logits": start, "end_logits": end}
    if "logits" in names and (isinstance(head, VectorHead | NextSentenceHead) or not hasattr(head, "before_decoder")):
        return {"logits": model.logits(batch)}
    hidden = model.encode(batch).hidden
    words = model.mlm_logits(hidden)
    if names == ("logits",):
        return {"logits": words}
    return {names[0]: words, names[1]: model.nsp_logits(model.pool(hidden, batch))}
