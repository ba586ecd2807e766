"""Checks of a graph file before a runtime opens it.

A folder's manifest detects a graph that was exchanged. These checks are for one that was accepted on purpose: it must
use standard operators alone and read only files of its own folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from ..core.errors import InputError, MissingExtraError, ModelFolderError
from ..core.storage import inside
from .config import OLDEST_OPSET

DOMAINS = ("", "ai.onnx")
FIX = "Export the model again with maskwright export."


def check_onnx(path: Path) -> None:
    """Raises ModelFolderError for a graph with custom operators, an old opset, or data outside of its folder."""
    try:
        import onnx
    except ImportError:
        raise MissingExtraError("Opening an exported ONNX model", "export") from None
    try:
        model = onnx.load(path, load_external_data=False)
    except Exception as error:  # protobuf's DecodeError, or a ValueError of the library
        raise ModelFolderError(f"{path} is not an ONNX graph ({type(error).__name__}). {FIX}") from None
    version = max((one.version for one in model.opset_import if one.domain in DOMAINS), default=0)
    if version < OLDEST_OPSET:
        raise ModelFolderError(
            f"{path} has opset {version}, which is too old: graphs need {OLDEST_OPSET} or later. {FIX}"
        )
    for node in _nodes(model.graph):
        if node.domain not in DOMAINS or model.functions:
            raise ModelFolderError(f"{path} has a custom operator, {node.domain}:{node.op_type}: only ONNX's own run.")
    for tensor in _tensors(model.graph):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            _check_data(path, {entry.key: entry.value for entry in tensor.external_data}.get("location", ""))


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


def _check_data(path: Path, location: str) -> None:
    try:
        data = inside(path.parent, location)
    except InputError:
        raise ModelFolderError(
            f"{path} reads its weights from '{location}', which is outside of its folder. {FIX}"
        ) from None
    if not data.is_file():
        raise ModelFolderError(f"{path} reads its weights from '{location}', which is missing. {FIX}")


def _nodes(graph: Any) -> Iterator[Any]:
    """All nodes, also of nested graphs."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from _nodes(inner)


def _tensors(graph: Any) -> Iterator[Any]:
    """All constants, also of nested graphs and attributes."""
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            yield from (attribute.t, *attribute.tensors)
            for inner in (attribute.g, *attribute.graphs):
                yield from _tensors(inner)
