#!/usr/bin/env bash
# Expected: in a dynamically quantized graph, masked padding and the other texts of a batch do not change the result of
# a text, as in the float graph.
# Happens: the range of the activations is that of the whole tensor. A text of five tokens, beside another text or with
# masked padding whose embedding is large, gets a result ten times further from the float graph than alone.
# Version: onnxruntime 1.32.0, onnx 1.23.2.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q onnxruntime==1.32.0 onnx==1.23.2
cd "$folder"
"$folder/venv/bin/python" - <<'PY' 2> errors || { cat errors; exit 1; }
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

print("onnxruntime", onnxruntime.__version__)
draw = np.random.default_rng(0)
table = draw.normal(size=(20, 64)).astype("f4")
table[0] *= 20  # the padding token
table[19] *= 20  # a rare token
weight = draw.normal(size=(64, 64)).astype("f4")
# The mean over the tokens of an embedding times a matrix; the mask leaves out padding.
nodes = [
    helper.make_node("Gather", ["table", "ids"], ["hidden"]),
    helper.make_node("MatMul", ["hidden", "weight"], ["rows"]),
    helper.make_node("Mul", ["rows", "mask"], ["kept"]),
    helper.make_node("ReduceSum", ["kept", "axis"], ["sum"], keepdims=0),
    helper.make_node("ReduceSum", ["mask", "axis"], ["count"], keepdims=0),
    helper.make_node("Div", ["sum", "count"], ["vector"]),
]
constants = [
    numpy_helper.from_array(table, "table"),
    numpy_helper.from_array(weight, "weight"),
    numpy_helper.from_array(np.array([1]), "axis"),
]
inputs = [
    helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", "sequence"]),
    helper.make_tensor_value_info("mask", TensorProto.FLOAT, ["batch", "sequence", 1]),
]
output = helper.make_tensor_value_info("vector", TensorProto.FLOAT, ["batch", 64])
graph = helper.make_graph(nodes, "graph", inputs, [output], constants)
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), "float.onnx")
quantize_dynamic("float.onnx", "int8.onnx", per_channel=True, weight_type=QuantType.QInt8, op_types_to_quantize=["MatMul"])


def vector(path, rows, length):
    """The vector of the first row; rows are padded to `length`."""
    ids = np.array([[*row, *[0] * (length - len(row))] for row in rows])
    mask = np.array([[1.0] * len(row) + [0.0] * (length - len(row)) for row in rows])[:, :, None]
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(None, {"ids": ids, "mask": mask.astype("f4")})[0][0]


text = [3, 7, 5, 11, 2]
cases = {"alone": ([text], 5), "padded": ([text], 9), "beside another text": ([text, [4, 6, 19, 8, 9]], 5)}
found = {}
for name, batch in cases.items():
    exact = vector("float.onnx", *cases["alone"])
    assert np.allclose(vector("float.onnx", *batch), exact, atol=1e-4)
    found[name] = float(np.abs(vector("int8.onnx", *batch) - exact).max() / np.abs(exact).max())
    print(f"{name}: differs from the float graph by {found[name]:.3f} of its largest number (float graph: 0.000)")
if found["padded"] < 4 * found["alone"] or found["beside another text"] < 4 * found["alone"]:
    sys.exit("The behavior changed: the result depends less on what is beside a text.")
PY
