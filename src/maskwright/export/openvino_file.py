"""The format OpenVINO (extra `export`): writes models by way of ONNX, checks them, and runs them."""

from __future__ import annotations

import io
import logging
import threading
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from ..core.errors import MissingExtraError, ModelFolderError
from .cached import Network
from .onnx_file import write_onnx
from .program import quiet
from .runtimes import FIX, Arrays, Format, compute_hint, first_line, without_reports

FILE = "openvino_{name}.xml"  # after the name of the graph; its weights are in a .bin of the same name


def openvino_core() -> Any:
    """Returns the package. Raises MissingExtraError without the extra."""
    try:
        import openvino
    except ImportError:
        raise MissingExtraError("The format OpenVINO", "export") from None
    return openvino


def write_openvino(program: Any, network: Network, folder: Path, opset: int) -> list[str]:
    """Writes an OpenVINO model in float32, converted from an ONNX graph. Returns the files written."""
    openvino = openvino_core()  # fails before the work
    graph, *others = (folder / name for name in write_onnx(program, network, folder, opset))
    name = FILE.format(name=graph.stem)
    # Not convert_model, which reports its use over the network.
    openvino.save_model(openvino.Core().read_model(graph), folder / name, compress_to_fp16=False)
    for path in (graph, *others):
        path.unlink()
    if not any(graph.parent.iterdir()):
        graph.parent.rmdir()
    return [name, str(Path(name).with_suffix(".bin"))]


def to_half(
    source: Path, files: list[str], folder: Path, samples: Sequence[dict[str, np.ndarray]], left_out: Sequence[str]
) -> list[str]:
    """Stores the weights in float16; OpenVINO computes in float32 with them."""
    openvino = openvino_core()
    openvino.save_model(openvino.Core().read_model(source / files[0]), folder / files[0], compress_to_fp16=True)
    return files


def as_it_is(
    source: Path, files: list[str], folder: Path, samples: Sequence[dict[str, np.ndarray]], left_out: Sequence[str]
) -> list[str]:
    """Keeps the float32 weights; the runtime computes in bfloat16 with them."""
    for name in files:
        (source / name).rename(folder / name)
    return files


def to_int8(
    source: Path, files: list[str], folder: Path, samples: Sequence[dict[str, np.ndarray]], left_out: Sequence[str]
) -> list[str]:
    """Static quantization by nncf: products and embeddings in int8, the latter with a scale per row; the rest stays
    float32, because OpenVINO compresses nothing to float16 in a quantized model.
    """
    openvino = openvino_core()
    model = openvino.Core().read_model(source / files[0])
    with quiet(), redirect_stdout(io.StringIO()):  # its progress bars
        try:
            with without_reports("NNCF_CI"):
                import nncf
        except ImportError:
            raise MissingExtraError("int8 with OpenVINO", "export") from None
        nncf.set_log_level(logging.ERROR)
        quantized = nncf.quantize(
            model,
            nncf.Dataset(list(samples)),
            subset_size=len(samples),
            model_type=nncf.ModelType.TRANSFORMER,
            ignored_scope=nncf.IgnoredScope(patterns=[f".*{name}.*" for name in left_out], validate=False),
        )
    openvino.save_model(quantized, folder / files[0], compress_to_fp16=False)
    return files


class OpenVino:
    """An OpenVINO model on the CPU. precision: as in maskwright.json; it computes in bfloat16 only for "bf16"."""

    def __init__(self, path: Path, threads: int | None, precision: str) -> None:
        openvino = openvino_core()
        check_openvino(path)
        settings: dict[str, Any] = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": compute_hint(precision)}
        if threads:
            settings["INFERENCE_NUM_THREADS"] = threads
        try:
            self._compiled = openvino.Core().compile_model(path, "CPU", settings)
        except Exception as error:  # RuntimeError of the library
            raise ModelFolderError(f"OpenVINO cannot open {path} ({first_line(error)}). {FIX}") from None
        self.name = f"OpenVINO {openvino.__version__.split('-')[0]}"
        self._outputs = [one.get_any_name() for one in self._compiled.outputs]
        self._lock = threading.Lock()  # a compiled model has one request, which threads of a server share

    def run(self, inputs: Arrays) -> dict[str, np.ndarray]:
        with self._lock:
            found = self._compiled(dict(inputs))
        return {name: np.array(found[index]) for index, name in enumerate(self._outputs)}


def check_openvino(path: Path) -> None:
    """Raises ModelFolderError for a model with operators of an extension."""
    try:
        layers = list(ElementTree.parse(path).iter("layer"))
    except (ElementTree.ParseError, OSError) as error:
        raise ModelFolderError(f"{path} is not an OpenVINO model ({error}). {FIX}") from None
    for layer in layers:
        if not layer.get("version", "").startswith("opset"):
            raise ModelFolderError(
                f"{path} has a custom operator, {layer.get('version')}:{layer.get('type')}: only OpenVINO's own run."
            )


FORMAT = Format(
    write_openvino,
    (
        "import openvino",
        'compiled = openvino.Core().compile_model("{file}", "CPU", {{"INFERENCE_PRECISION_HINT": "{compute}"}})',
        "found = compiled(arrays)\noutputs = [found[name] for name in {names}]",
    ),
    open=OpenVino,
    packages=("openvino", "onnx", "onnxscript"),
    conversions={"fp16": to_half, "bf16": as_it_is, "int8": to_int8},
    quantization={"quantizer": "nncf", "activations": "static"},
)
