"""Writes a graph as an OpenVINO model (extra `export`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..core.errors import MissingExtraError
from .config import ExportConfig
from .format import Format
from .network import PaddedNetwork
from .onnx_file import write_onnx

FILES = ("openvino_model.xml", "openvino_model.bin")


def openvino_core() -> Any:
    """Returns the package. Raises MissingExtraError without the extra."""
    try:
        import openvino
    except ImportError:
        raise MissingExtraError("The format OpenVINO", "export") from None
    return openvino


def write_openvino(program: Any, network: PaddedNetwork, folder: Path, config: ExportConfig) -> list[str]:
    """Writes an OpenVINO model in float32, converted from an ONNX graph. Returns the files written."""
    openvino = openvino_core()
    graph, *others = (folder / name for name in write_onnx(program, network, folder, config))
    openvino.save_model(openvino.convert_model(graph), folder / FILES[0], compress_to_fp16=False)
    for path in (graph, *others):
        path.unlink()
    graph.parent.rmdir()
    return list(FILES)


FORMAT = Format(
    write_openvino,
    packages=("openvino", "onnx", "onnxscript"),
    script=(
        "import openvino",
        'compiled = openvino.Core().compile_model("{file}", "CPU")',
        "found = compiled(inputs)\noutputs = [found[name] for name in {names}]",
    ),
)
