"""The format ONNX (extra `export`): writes graphs, checks them, and runs them in ONNX Runtime."""

from __future__ import annotations

import ast
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..core import storage
from ..core.errors import InputError, MissingExtraError, ModelFolderError
from .cached import Network
from .config import OLDEST_OPSET
from .program import quiet
from .runtimes import FIX, Arrays, Format, first_line, without_reports

# As transformers.js and optimum name them, after the name of the graph.
FILE, HALF, QUANTIZED = "onnx/{name}.onnx", "_fp16", "_quantized"
MOST_BYTES = 1_900_000_000  # a larger graph does not fit into one protobuf: its weights are stored in a separate file
DOMAINS = ("", "ai.onnx")
# This fusion of a residual and its layer normalization made MiniLM 11% slower, measured on a CPU with AMX.
SLOW_FUSION = "SkipLayerNormFusion"


def import_onnxruntime(what: str = "Opening an exported ONNX model") -> Any:
    """Returns the package. what: for MissingExtraError, without the extra."""
    try:
        with without_reports("ORT_DISABLE_TELEMETRY"):
            import onnxruntime
    except ImportError:
        raise MissingExtraError(what, "export") from None
    return onnxruntime


# -- Writing ---------------------------------------------------------------------------------------------------------


def write_onnx(program: torch.export.ExportedProgram, network: Network, folder: Path, opset: int) -> list[str]:
    """Writes `folder/onnx/model.onnx`, with dynamic axes by name. Returns the files written."""
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
    return _save(exported.model, folder, FILE.format(name=network.name))


def to_half(
    source: Path, files: list[str], folder: Path, samples: Sequence[dict[str, np.ndarray]], left_out: Sequence[str]
) -> list[str]:
    """Weights and results of operators in float16, inputs and outputs as before. A CPU computes in float32 between."""
    import onnx
    import onnx_ir

    import_onnxruntime("float16 with ONNX")
    from onnxruntime.transformers.float16 import convert_float_to_float16

    with quiet():
        model = convert_float_to_float16(onnx.load(source / files[0]), keep_io_types=True)
    return _save(onnx_ir.from_proto(model), folder, _named(files, HALF))


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


def _save(model: Any, folder: Path, name: str) -> list[str]:
    """Writes an onnx_ir model; weights of a large one go to a second file. Returns the files written."""
    import onnx
    import onnx_ir

    size = sum(value.const_value.nbytes for value in model.graph.initializers.values() if value.const_value is not None)
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    if size <= MOST_BYTES:
        data = io.BytesIO()
        onnx.save(onnx_ir.to_proto(model), data)
        storage.write_bytes(folder / name, data.getvalue())
        return [name]
    beside = f"{Path(name).name}_data"
    onnx_ir.save(model, folder / name, external_data=beside)
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


# -- Running ---------------------------------------------------------------------------------------------------------


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
            raise ModelFolderError(f"ONNX Runtime cannot open {path} ({first_line(error)}). {FIX}") from None
        self.name = f"ONNX Runtime {onnxruntime.__version__}"
        self._outputs = [one.name for one in self._session.get_outputs()]

    def run(self, inputs: Arrays) -> dict[str, np.ndarray]:
        return dict(zip(self._outputs, self._session.run(None, dict(inputs)), strict=True))


def check_onnx(path: Path) -> None:
    """Checks a graph that was accepted on purpose: it must use standard operators alone, and read only its own folder.

    Raises ModelFolderError for a graph with custom operators, an old opset, or data outside of its folder.
    """
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
    tensors = list(model.graph.initializer)
    for node in _nodes(model.graph):
        if node.domain not in DOMAINS or model.functions:
            raise ModelFolderError(f"{path} has a custom operator, {node.domain}:{node.op_type}: only ONNX's own run.")
        for attribute in node.attribute:
            tensors += [attribute.t, *attribute.tensors, *(one for g in _graphs(attribute) for one in g.initializer)]
    for tensor in tensors:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            _check_data(path, {entry.key: entry.value for entry in tensor.external_data}.get("location", ""))


def _check_data(path: Path, location: str) -> None:
    try:
        reason = "" if storage.inside(path.parent, location).is_file() else "missing"
    except InputError:
        reason = "outside of its folder"
    if reason:
        raise ModelFolderError(f"{path} reads its weights from '{location}', which is {reason}. {FIX}")


def _graphs(attribute: Any) -> list[Any]:
    return [attribute.g, *attribute.graphs]


def _nodes(graph: Any) -> Iterator[Any]:
    """All nodes, also of nested graphs."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in _graphs(attribute):
                yield from _nodes(inner)


FORMAT = Format(
    write_onnx,
    (
        "import onnxruntime",
        'session = onnxruntime.InferenceSession("{file}")',
        "outputs = session.run({names}, arrays)",
    ),
    open=OnnxRuntime,
    packages=("onnx", "onnxruntime", "onnxscript"),
    conversions={"fp16": to_half, "int8": to_int8},
    quantization={"quantizer": "onnxruntime", "activations": "dynamic"},
)
