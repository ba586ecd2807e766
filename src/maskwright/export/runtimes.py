"""Formats of exported graphs, and the graphs of an exported folder as they run on batches.

A `Format` writes the graphs and opens them in its runtime. The names of inputs are those of optimum and
transformers.js. A graph with a cache reads a prompt, with a cache of length 0, and then one or more tokens at a time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..core import registry
from ..core.errors import ModelFolderError
from ..core.storage import inside

IDS, MASK, TYPES = "input_ids", "attention_mask", "token_type_ids"
POSITIONS, PAST, PRESENT = "position_ids", "past_key_values", "present"
MEMORY, MEMORY_MASK = "encoder_hidden_states", "encoder_attention_mask"
ENCODER, DECODER = "encoder_model", "decoder_model_merged"
TARGETS, TARGETS_MASK = "decoder_input_ids", "decoder_attention_mask"
FIX = "Export the model again with maskwright export."

Row = Sequence[int] | np.ndarray
Arrays = Mapping[str, np.ndarray]
# Folder of the float32 graph, its files, new folder, inputs to calibrate on (empty unless int8), names of products that
# stay in float32 -> the files of the new graph, the graph first.
Conversion = Callable[[Path, list[str], Path, Sequence[dict[str, np.ndarray]], Sequence[str]], list[str]]


class Runtime(Protocol):
    """A graph that is ready to run."""

    @property
    def name(self) -> str:
        """The runtime and its version."""

    def run(self, inputs: Arrays) -> dict[str, np.ndarray]:
        """Returns the outputs by name; inputs: as the folder's maskwright.json describes them."""


@dataclass(frozen=True)
class Format:
    """How a traced program is written and run; in `core.registry` under "export_format".

    Attributes:
        write: program, network, new folder, version of the ONNX operators -> the files of the float32 graph, the graph
            first.
        open: file, threads (None for all), precision -> the graph in its runtime; None if maskwright does not open it.
        packages: packages whose versions the folder records.
        conversions: how its graph gets another precision, by precision.
        quantization: what the folder records of int8: the package, and "static" or "dynamic" activations.
        script: lines of a program that runs the graph: imports, opening, running, with {file}, {names} and {compute},
            OpenVINO's name of the precision that it computes in; for a format that torch loads, the line that does.
    """

    write: Callable[[Any, Any, Path, int], list[str]]
    script: tuple[str, ...]
    open: Callable[[Path, int | None, str], Runtime] | None = None
    packages: tuple[str, ...] = ()
    conversions: Mapping[str, Conversion] = field(default_factory=dict)
    quantization: Mapping[str, str] = field(default_factory=dict)


def format_of(name: str) -> Format:
    """The format of this name."""
    found: Format = registry.resolve("export_format", name)
    return found


def open_runtimes(folder: Path, spec: Mapping[str, Any], threads: int | None) -> dict[str, Runtime]:
    """Opens the graphs of an exported folder, by name.

    spec: the entry "export" of its maskwright.json; threads: None for all.

    Raises ModelFolderError for a graph that is not usable, and for a format without a runtime; MissingExtraError.
    """
    form, found = format_of(spec["format"]), {}
    if form.open is None:
        raise ModelFolderError(
            f"{folder} contains a graph of the format {spec['format']}, which maskwright does not open: its loader may "
            "run code of the file. Export the model with --to onnx or --to openvino."
        )
    for name, graph in spec["graphs"].items():
        path = inside(folder, str(graph["file"]))
        if not path.is_file():
            raise ModelFolderError(f"{path} is missing. {FIX}")
        found[name] = form.open(path, threads, spec["precision"])
    return found


def compute_hint(precision: str) -> str:
    """OpenVINO's name of the type that a graph of this precision computes in; its own choice depends on the CPU."""
    return "bf16" if precision == "bf16" else "f32"


def first_line(error: Exception) -> str:
    """What a library says of an error, without its traces."""
    return str(error).strip().split("\n")[0].rstrip(".")


@contextmanager
def without_reports(variable: str) -> Iterator[None]:
    """For the import of a package that would report its use over the network; it reads the variable then."""
    before = os.environ.get(variable)
    os.environ[variable] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[variable]
        else:
            os.environ[variable] = before


# -- Batches ---------------------------------------------------------------------------------------------------------


class Rows(NamedTuple):
    """A batch. ids: token IDs of each row; types: token types of each, None for zeros; choices: rows of one question, 0
    for other models; targets: token IDs of the target of each row, for a decoder.
    """

    ids: Sequence[Row]
    types: Sequence[Row] | None = None
    choices: int = 0
    targets: Sequence[Row] = ()


def rectangle(rows: Sequence[Row], filler: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns rows padded at the right, and 1 for what is not padding: int64 [rows, longest row] each."""
    shape = (len(rows), max(1, *map(len, rows)))
    values, mask = np.full(shape, filler, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    for index, row in enumerate(rows):
        values[index, : len(row)], mask[index, : len(row)] = row, 1
    return values, mask


def pad_left(rows: Sequence[Row], pad_id: int) -> tuple[np.ndarray, np.ndarray]:
    """The same, padded at the left."""
    ids, mask = rectangle([row[::-1] for row in rows], pad_id)
    return ids[:, ::-1].copy(), mask[:, ::-1].copy()


def pad_rows(spec: Mapping[str, Any], rows: Rows, graph: str = "model") -> dict[str, np.ndarray]:
    """The inputs of a graph without a cache: int64 [rows, longest row] each, [questions, choices, longest row] for
    multiple choice, padded at the right. spec: the entry "export" of maskwright.json; graph: its name.
    """
    ids, mask = rectangle(rows.ids, int(spec["preprocessing"]["padding"]["id"]))
    kinds = np.zeros_like(ids) if rows.types is None else rectangle(rows.types, 0)[0]
    found = {IDS: ids, MASK: mask, TYPES: kinds}
    shape = (-1, rows.choices, ids.shape[1]) if rows.choices else ids.shape
    return {one["name"]: found[one["name"]].reshape(shape) for one in spec["graphs"][graph]["inputs"]}


# -- Graphs with a cache ---------------------------------------------------------------------------------------------


class CachedGraph:
    """A graph with cached keys and values, and the cache of some rows.

    graph: its description in maskwright.json; fixed: inputs that are the same in every call, a row for each row. Rows
    of a causal model may be padded at the left.
    """

    def __init__(self, runtime: Runtime, graph: Mapping[str, Any], num_rows: int, fixed: Arrays | None = None) -> None:
        self._runtime, self._fixed = runtime, dict(fixed or {})
        self._mask: np.ndarray | None = None  # int64 [rows, tokens so far], of a causal model
        self._past = {
            one["name"]: np.zeros([num_rows, *(axis if isinstance(axis, int) else 0 for axis in one["axes"][1:])], "f4")
            for one in graph["inputs"]
            if one["name"].startswith(PAST)
        }
        if any(one["name"] == POSITIONS for one in graph["inputs"]):
            self._mask = np.zeros((num_rows, 0), np.int64)

    def add(self, ids: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        """Adds tokens to every row: float32 logits [rows, new, vocab].

        ids: int64 [rows, new]; mask: 0 for padding before a row of a causal model; None for tokens alone.
        """
        inputs = {IDS: ids, **self._fixed, **self._past}
        if self._mask is not None:
            self._mask = np.concatenate([self._mask, np.ones_like(ids) if mask is None else mask], axis=1)
            inputs |= {MASK: self._mask, POSITIONS: positions_of(self._mask)[:, -ids.shape[1] :]}
        found = self._runtime.run(inputs)
        self._past = {name: found[name.replace(PAST, PRESENT, 1)] for name in self._past}
        return found["logits"]

    def keep(self, rows: np.ndarray) -> None:
        """Keeps only `rows`, int64 [kept], in that order; rows may repeat."""
        self._past = {name: one[rows] for name, one in self._past.items()}
        self._fixed = {name: one[rows] for name, one in self._fixed.items()}
        self._mask = None if self._mask is None else self._mask[rows]


def positions_of(mask: np.ndarray) -> np.ndarray:
    """The positions of tokens, some of which are padding: int64 [..., tokens], like `mask`."""
    return np.clip(mask.cumsum(axis=-1) - 1, 0, None)


def is_cached(spec: Mapping[str, Any]) -> bool:
    """Whether the graph of an exported folder has a cache. spec: the entry "export" of its maskwright.json."""
    return DECODER in spec["graphs"] or any(one["name"] == POSITIONS for one in spec["graphs"]["model"]["inputs"])


def encode_sources(
    runtime: Runtime, spec: Mapping[str, Any], ids: Sequence[Row]
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Encodes source texts: the inputs of the encoder, and those of the decoder that stay the same."""
    inputs = pad_rows(spec, Rows(ids), ENCODER)
    return inputs, {MEMORY: next(iter(runtime.run(inputs).values())), MEMORY_MASK: inputs[MASK]}


def run_batch(runtimes: Mapping[str, Runtime], spec: Mapping[str, Any], rows: Rows) -> dict[str, np.ndarray]:
    """Runs the graphs on a batch: its inputs, in the names of the padded call of a model, and outputs by name.

    A graph with a cache gets the tokens in several calls: the first half, two single ones, and the rest.
    """
    if not is_cached(spec):
        inputs = pad_rows(spec, rows)
        return inputs | runtimes["model"].run(inputs)
    if DECODER in spec["graphs"]:
        inputs, fixed = encode_sources(runtimes[ENCODER], spec, rows.ids)
        ids, mask = rectangle(rows.targets, 0)
        inputs |= {TARGETS: ids, TARGETS_MASK: mask}
    else:
        ids, mask = pad_left(rows.ids, int(spec["preprocessing"]["padding"]["id"]))
        inputs, fixed = {IDS: ids, MASK: mask}, {}
    name = DECODER if DECODER in spec["graphs"] else "model"
    graph, length = CachedGraph(runtimes[name], spec["graphs"][name], len(ids), fixed), ids.shape[1]
    parts = np.split(np.arange(length), sorted({max(length // 2, 1), length // 2 + 1, length // 2 + 2}))
    logits = [graph.add(ids[:, part], mask[:, part]) for part in parts if len(part)]
    return {**inputs, "logits": np.concatenate(logits, axis=1)}
