#!/usr/bin/env bash
# Expected: one quantized (QDQ) graph gives nearly the same numbers in ONNX Runtime and OpenVINO, in float32 where a
# runtime has no integer kernel.
# Happens: with 16-bit activations after a Relu, the numbers of OpenVINO are wrong by most of their size, without an
# error; ONNX Runtime is within 2% of the float graph. With 8 bits, and with 16 bits without the Relu, they agree.
# Version: openvino 2026.4.1, onnxruntime 1.32.0, onnx 1.23.2.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q openvino==2026.4.1 onnxruntime==1.32.0 onnx==1.23.2
cd "$folder"
"$folder/venv/bin/python" - <<'PY' 2> errors || { cat errors; exit 1; }
import sys

import numpy as np
import onnx
import onnxruntime
import openvino
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

print("openvino", openvino.__version__, "onnxruntime", onnxruntime.__version__)
draw = np.random.default_rng(0)
first, second = draw.normal(size=(64, 256)) * 0.1, draw.normal(size=(256, 64)) * 0.1
weights = [numpy_helper.from_array(one.astype("f4"), name) for one, name in ((first, "first"), (second, "second"))]


def write(with_relu):
    nodes = [helper.make_node("MatMul", ["x", "first"], ["hidden"])]
    if with_relu:
        nodes.append(helper.make_node("Relu", ["hidden"], ["active"]))
    nodes.append(helper.make_node("MatMul", ["active" if with_relu else "hidden", "second"], ["y"]))
    inputs, outputs = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, 64]) for name in "xy")
    graph = helper.make_graph(nodes, "graph", [inputs], [outputs], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), "float.onnx")


class Typical(CalibrationDataReader):
    def __init__(self):
        source = np.random.default_rng(1)
        self.batches = iter([{"x": source.normal(size=(64, 64)).astype("f4")} for _ in range(8)])

    def get_next(self):
        return next(self.batches, None)


def run(path, values):
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": values})[0]


values = np.random.default_rng(2).normal(size=(64, 64)).astype("f4")
core, found = openvino.Core(), {}
for with_relu, kind in ((True, QuantType.QInt16), (False, QuantType.QInt16), (True, QuantType.QInt8)):
    write(with_relu)
    quantize_static("float.onnx", "qdq.onnx", Typical(), quant_format=QuantFormat.QDQ, activation_type=kind)
    exact = run("float.onnx", values)
    compiled = core.compile_model("qdq.onnx", "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    errors = [float(np.abs(one - exact).max() / np.abs(exact).max()) for one in (run("qdq.onnx", values), compiled({"x": values})[0])]
    found[with_relu, kind.name] = errors
    print(f"relu {with_relu}, {kind.name}: ONNX Runtime {errors[0]:.3f}, OpenVINO {errors[1]:.3f} from the float graph")
theirs, wrong = found[True, "QInt16"]
if theirs > 0.05 or wrong < 0.3:
    sys.exit("The behavior changed: both runtimes agree on 16-bit activations.")
PY
