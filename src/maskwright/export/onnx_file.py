"""Writes a traced program as an ONNX graph (extra `export`)."""

from __future__ import annotations

import ast
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..core import storage
from ..core.errors import MissingExtraError
from .cached import Network
from .config import ExportConfig
from .format import Conversion, Format
from .program import quiet
from .runtimes import import_onnxruntime

# As transformers.js and optimum name them, after the name of the graph.
FILE, HALF, QUANTIZED = "onnx/{name}.onnx", "_fp16", "_quantized"
MOST_BYTES = 1_900_000_000  # a larger graph does not fit into one protobuf: its weights are stored in a separate file


def write_onnx(
    program: torch.export.ExportedProgram, network: Network, folder: Path, config: ExportConfig
) -> list[str]:
    """Writes `folder/onnx/model.onnx`, with dynamic axes by name. Returns the files written."""
    name = FILE.format(name=network.name)
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    return save_graph(traced_graph(program, network, config.opset), folder, name)


def traced_graph(program: torch.export.ExportedProgram, network: Network, opset: int) -> Any:
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
    _name_axes(exported.model, network)
    _name_products(exported.model)
    return exported.model


def to_half(
    source: Path, files: list[str], folder: Path, samples: Sequence[dict[str, np.ndarray]], left_out: Sequence[str]
) -> list[str]:
    """Weights and results of operators in float16, inputs and outputs as before. A CPU computes in float32 between."""
    import onnx

    import_onnxruntime("float16 with ONNX")
    from onnxruntime.transformers.float16 import convert_float_to_float16

    with quiet():
        model = convert_float_to_float16(onnx.load(source / files[0]), keep_io_types=True)
    return _save_proto(model, folder, _named(files, HALF))


def to_int8(
    source: Path, files: list[str], folder: Path, samples: Sequence[dict[str, np.ndarray]], left_out: Sequence[str]
) -> list[str]:
    """Dynamic quantization by ONNX Runtime: weights by channel, the range of activations from each batch."""
    import onnx

    import_onnxruntime("int8 with ONNX")
    from onnxruntime.quantization import QuantType, quantize_dynamic

    model = onnx.load(source / files[0])
    kept = [node.name for node in model.graph.node if any(name in node.name for name in left_out)]
    # The quantizer infers shapes itself, and fails where it finds a broadcast axis to be larger than torch traced it.
    del model.graph.value_info[:]
    target = folder / _named(files, QUANTIZED)
    target.parent.mkdir(parents=True, exist_ok=True)
    with quiet():
        quantize_dynamic(model, target, per_channel=True, weight_type=QuantType.QInt8, nodes_to_exclude=kept)
    return [_named(files, QUANTIZED)]


def _named(files: Sequence[str], ending: str) -> str:
    """The file of a graph in another precision."""
    return FILE.format(name=Path(files[0]).stem + ending)


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


def _save_proto(model: Any, folder: Path, name: str) -> list[str]:
    """The same for an onnx model."""
    import onnx

    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    if model.ByteSize() <= MOST_BYTES:
        data = io.BytesIO()
        onnx.save(model, data)
        storage.write_bytes(folder / name, data.getvalue())
        return [name]
    beside = f"{Path(name).name}_data"
    onnx.save(model, folder / name, save_as_external_data=True, location=beside)
    return [name, str(Path(name).with_name(beside))]


def _name_axes(model: Any, network: Network) -> None:
    """Gives the dynamic axes the names that the network has for those of its inputs, wherever a shape names them."""
    import onnx_ir

    names = {
        str(dim.value): axis
        for value in model.graph.inputs
        for dim, axis in zip(value.shape, network.axes(value.name), strict=True)
        if isinstance(dim, onnx_ir.SymbolicDim)
    }
    values = [*model.graph.inputs, *(value for node in model.graph.all_nodes() for value in node.outputs)]
    for value in values:
        for axis, dim in enumerate(value.shape or ()):
            if isinstance(dim, onnx_ir.SymbolicDim) and str(dim.value) in names:
                value.shape[axis] = onnx_ir.SymbolicDim(names[str(dim.value)])


def _name_products(model: Any) -> None:
    """Gives products and their results the names of their modules, by which quantizers leave some out."""
    outputs = {id(value) for value in model.graph.outputs}
    for index, node in enumerate(model.graph.all_nodes()):
        scopes = ast.literal_eval(node.metadata_props.get("pkg.torch.onnx.name_scopes", "[]"))
        if node.op_type in ("MatMul", "Gemm") and len(scopes) > 1:
            node.name = f"{scopes[-2]}.{index}"
            if id(node.outputs[0]) not in outputs:
                node.outputs[0].name = node.name


FORMAT = Format(
    write_onnx,
    packages=("onnx", "onnxruntime", "onnxscript"),
    conversions={
        "fp16": Conversion(to_half),
        "int8": Conversion(to_int8, facts={"quantizer": "onnxruntime", "activations": "dynamic"}),
    },
    settings=("opset",),
    script=(
        "import onnxruntime",
        'session = onnxruntime.InferenceSession("{file}")',
        "outputs = session.run({names}, inputs)",
    ),
)
