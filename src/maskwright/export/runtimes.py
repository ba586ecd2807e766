"""Runs the graph of an exported folder in ONNX Runtime or OpenVINO. Imports no torch."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ..core import registry
from ..core.errors import MissingExtraError, ModelFolderError
from ..core.storage import inside
from .graph_checks import FIX, check_onnx, check_openvino

# -- Token sequences as padded arrays, the inputs of a graph. Imports no torch ---------------------------------------


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


Arrays = Mapping[str, np.ndarray]
# This fusion of a residual and its layer normalization made MiniLM 11% slower, measured on a CPU with AMX.
SLOW_FUSION = "SkipLayerNormFusion"


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


def import_onnxruntime(what: str = "Opening an exported ONNX model") -> Any:
    """Returns the package. what: for MissingExtraError, without the extra."""
    try:
        with without_reports("ORT_DISABLE_TELEMETRY"):
            import onnxruntime
    except ImportError:
        raise MissingExtraError(what, "export") from None
    return onnxruntime


class Runtime(Protocol):
    """A graph that is ready to run."""

    @property
    def name(self) -> str:
        """The runtime and its version."""

    def run(self, inputs: Arrays) -> dict[str, np.ndarray]:
        """Returns the outputs by name; inputs: as the folder's maskwright.json describes them."""


class OnnxRuntime:
    """An ONNX graph in ONNX Runtime, on the CPU. The graph itself has its precision."""

    def __init__(self, path: Path, threads: int | None, precision: str) -> None:
        onnxruntime = import_onnxruntime()
        check_onnx(path)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads or 0
        options.log_severity_level = 3  # errors only
        try:
            self._session = onnxruntime.InferenceSession(
                path, options, providers=["CPUExecutionProvider"], disabled_optimizers=[SLOW_FUSION]
            )
        except Exception as error:  # the runtime's own types, which have no common base
            raise ModelFolderError(f"ONNX Runtime cannot open {path} ({_first_line(error)}). {FIX}") from None
        self.name = f"ONNX Runtime {onnxruntime.__version__}"
        self._outputs = [one.name for one in self._session.get_outputs()]

    def run(self, inputs: Arrays) -> dict[str, np.ndarray]:
        """See Runtime."""
        return dict(zip(self._outputs, self._session.run(None, dict(inputs)), strict=True))


class OpenVino:
    """An OpenVINO model on the CPU. precision: as in maskwright.json; it computes in bfloat16 only for "bf16"."""

    def __init__(self, path: Path, threads: int | None, precision: str) -> None:
        try:
            import openvino
        except ImportError:
            raise MissingExtraError("Opening an exported OpenVINO model", "export") from None
        check_openvino(path)
        core = openvino.Core()
        settings: dict[str, Any] = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": compute_hint(precision)}
        if threads:
            settings["INFERENCE_NUM_THREADS"] = threads
        try:
            self._compiled = core.compile_model(core.read_model(path), "CPU", settings)
        except Exception as error:  # RuntimeError of the library
            raise ModelFolderError(f"OpenVINO cannot open {path} ({_first_line(error)}). {FIX}") from None
        self.name = f"OpenVINO {openvino.__version__.split('-')[0]}"
        self._outputs = [one.get_any_name() for one in self._compiled.outputs]
        self._lock = threading.Lock()  # a compiled model has one request, which threads of a server share

    def run(self, inputs: Arrays) -> dict[str, np.ndarray]:
        """See Runtime."""
        with self._lock:
            found = self._compiled(dict(inputs))
        return {name: np.array(found[index]) for index, name in enumerate(self._outputs)}


def open_runtime(folder: Path, spec: Mapping[str, Any], threads: int | None, graph: str = "model") -> Runtime:
    """Opens a graph of an exported folder.

    spec: the entry "export" of its maskwright.json; threads: None for all.

    Raises ModelFolderError for a graph that is not usable, and for a format without a runtime; MissingExtraError.
    """
    path = inside(folder, str(spec["graphs"][graph]["file"]))
    if not path.is_file():
        raise ModelFolderError(f"{path} is missing. {FIX}")
    runnable = registry.names("export_runtime")
    if spec["format"] in runnable:
        runtime: Runtime = registry.resolve("export_runtime", spec["format"])(path, threads, spec["precision"])
        return runtime
    raise ModelFolderError(
        f"{folder} contains a graph of the format {spec['format']}, which maskwright does not open: its loader may run "
        f"code of the file. Export the model with {' or '.join(f'--to {name}' for name in runnable)}."
    )


def compute_hint(precision: str) -> str:
    """OpenVINO's name of the type that a graph of this precision computes in; its own choice depends on the CPU."""
    return "bf16" if precision == "bf16" else "f32"


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0].rstrip(".")
