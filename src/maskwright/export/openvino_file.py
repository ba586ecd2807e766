"""Writes a graph as an OpenVINO model (extra `export`)."""

from __future__ import annotations

import io
import logging
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import MissingExtraError
from .cached import Network
from .config import ExportConfig
from .format import Conversion, Format
from .onnx_file import write_onnx
from .program import quiet
from .runtimes import without_reports

FILE = "openvino_{name}.xml"  # after the name of the graph; its weights are in a .bin of the same name


def openvino_core() -> Any:
    """Returns the package. Raises MissingExtraError without the extra."""
    try:
        import openvino
    except ImportError:
        raise MissingExtraError("The format OpenVINO", "export") from None
    return openvino


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
        nncf = _nncf()
        quantized = nncf.quantize(
            model,
            nncf.Dataset(list(samples)),
            subset_size=len(samples),
            model_type=nncf.ModelType.TRANSFORMER,
            ignored_scope=nncf.IgnoredScope(patterns=[f".*{name}.*" for name in left_out], validate=False),
        )
    openvino.save_model(quantized, folder / files[0], compress_to_fp16=False)
    return files


def _nncf() -> Any:
    """Returns the package, imported so that it reports no use of it over the network.

    Raises MissingExtraError without the extra.
    """
    try:
        with without_reports("NNCF_CI"):
            import nncf
    except ImportError:
        raise MissingExtraError("int8 with OpenVINO", "export") from None
    nncf.set_log_level(logging.ERROR)
    return nncf


def write_openvino(program: Any, network: Network, folder: Path, config: ExportConfig) -> list[str]:
    """Writes an OpenVINO model in float32, converted from an ONNX graph. Returns the files written."""
    openvino_core()  # fails before the work
    return from_onnx(folder, write_onnx(program, network, folder, config))


def from_onnx(folder: Path, files: Sequence[str]) -> list[str]:
    """Replaces the files of an ONNX graph in `folder` by an OpenVINO model in float32. Returns the files written."""
    openvino = openvino_core()
    graph, *others = (folder / name for name in files)
    # Not convert_model, which reports its use over the network.
    name = FILE.format(name=graph.stem)
    openvino.save_model(openvino.Core().read_model(graph), folder / name, compress_to_fp16=False)
    for path in (graph, *others):
        path.unlink()
    if not any(graph.parent.iterdir()):
        graph.parent.rmdir()
    return [name, str(Path(name).with_suffix(".bin"))]


FORMAT = Format(
    write_openvino,
    packages=("openvino", "onnx", "onnxscript"),
    conversions={
        "fp16": Conversion(to_half),
        "bf16": Conversion(as_it_is),
        "int8": Conversion(to_int8, ("nncf",), {"quantizer": "nncf", "activations": "static"}),
    },
    script=(
        "import openvino",
        'compiled = openvino.Core().compile_model("{file}", "CPU", {{"INFERENCE_PRECISION_HINT": "{compute}"}})',
        "found = compiled(inputs)\noutputs = [found[name] for name in {names}]",
    ),
)
