"""Writes a traced program as an ONNX graph (extra `export`)."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import torch

from ..core import storage
from ..core.errors import MissingExtraError
from .config import ExportConfig
from .format import Format
from .network import PaddedNetwork
from .program import AXES, quiet

FILE = "onnx/model.onnx"
MOST_BYTES = 1_900_000_000  # a larger graph does not fit into one protobuf: its weights are stored in a separate file


def write_onnx(
    program: torch.export.ExportedProgram, network: PaddedNetwork, folder: Path, config: ExportConfig
) -> list[str]:
    """Writes `folder/onnx/model.onnx`, with dynamic axes by name. Returns the files written."""
    (folder / FILE).parent.mkdir(parents=True, exist_ok=True)
    return save_graph(traced_graph(program, network, config.opset), folder, FILE)


def traced_graph(program: torch.export.ExportedProgram, network: PaddedNetwork, opset: int) -> Any:
    """Returns the program as an onnx_ir model. Raises MissingExtraError without the extra."""
    try:
        import onnxscript  # noqa: F401  # torch's exporter needs it
    except ImportError:
        raise MissingExtraError("Exporting to ONNX", "export") from None
    with quiet():
        exported = torch.onnx.export(
            program,
            dynamo=True,
            opset_version=opset,
            input_names=list(network.inputs),
            output_names=list(network.outputs),
            verbose=False,
        )
    assert exported is not None
    _name_axes(exported.model, network.rank)
    return exported.model


def save_graph(model: Any, folder: Path, name: str) -> list[str]:
    """Writes an onnx_ir model; weights of a large one go to a second file. Returns the files written."""
    import onnx
    import onnx_ir

    size = sum(value.const_value.nbytes for value in model.graph.initializers.values() if value.const_value is not None)
    if size <= MOST_BYTES:
        data = io.BytesIO()
        onnx.save(onnx_ir.to_proto(model), data)
        storage.write_bytes(folder / name, data.getvalue())
        return [name]
    beside = f"{Path(name).name}_data"
    onnx_ir.save(model, folder / name, external_data=beside)
    return [name, str(Path(name).with_name(beside))]


def _name_axes(model: Any, rank: int) -> None:
    """Gives the dynamic axes the names of AXES, wherever a shape names them."""
    import onnx_ir

    names = {
        str(dim.value): axis
        for dim, axis in zip(model.graph.inputs[0].shape, AXES[rank], strict=True)
        if isinstance(dim, onnx_ir.SymbolicDim)
    }
    values = [*model.graph.inputs, *(value for node in model.graph.all_nodes() for value in node.outputs)]
    for value in values:
        for axis, dim in enumerate(value.shape or ()):
            if isinstance(dim, onnx_ir.SymbolicDim) and str(dim.value) in names:
                value.shape[axis] = onnx_ir.SymbolicDim(names[str(dim.value)])


FORMAT = Format(
    write_onnx,
    packages=("onnx", "onnxruntime", "onnxscript"),
    settings=("opset",),
    script=(
        "import onnxruntime",
        'session = onnxruntime.InferenceSession("{file}")',
        "outputs = session.run({names}, inputs)",
    ),
)
