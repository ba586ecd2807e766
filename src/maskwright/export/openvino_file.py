"""Writes a graph as an OpenVINO model (extra `export`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..core.errors import MissingExtraError

FILES = ("openvino_model.xml", "openvino_model.bin")


def openvino_core() -> Any:
    """Returns the package. Raises MissingExtraError without the extra."""
    try:
        import openvino
    except ImportError:
        raise MissingExtraError("The format OpenVINO", "export") from None
    return openvino


def convert_onnx(path: Path) -> Any:
    """Returns an ONNX graph as an OpenVINO model."""
    return openvino_core().convert_model(path)


def write_openvino(model: Any, folder: Path) -> list[str]:
    """Writes an OpenVINO model in float32. Returns the files written."""
    openvino_core().save_model(model, folder / FILES[0], compress_to_fp16=False)
    return list(FILES)
