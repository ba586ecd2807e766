#!/usr/bin/env bash
# Expected: save_model(compress_to_fp16=True) stores float constants in float16, whether or not a part of the model is
# quantized: the file of a model with one quantized value is half as large as without compression.
# Happens: one QuantizeLinear and DequantizeLinear anywhere (FakeQuantize) turns the compression of all constants off,
# without a word: both files have the same size. An int8 model keeps its other weights in float32.
# Version: openvino 2026.4.1, onnx 1.23.2.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q openvino==2026.4.1 onnx==1.23.2
cd "$folder"
"$folder/venv/bin/python" - <<'PY'
import os
import sys

import numpy as np
import onnx
import openvino
from onnx import TensorProto, helper, numpy_helper

print("openvino", openvino.__version__)
weight = np.random.default_rng(0).normal(size=(64, 1000)).astype("f4")
sizes = {}
for quantized in (False, True):
    nodes = []
    if quantized:
        nodes.append(helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["int8"]))
        nodes.append(helper.make_node("DequantizeLinear", ["int8", "scale", "zero"], ["again"]))
    nodes.append(helper.make_node("MatMul", ["again" if quantized else "x", "weight"], ["y"]))
    constants = [numpy_helper.from_array(weight, "weight")]
    constants += [numpy_helper.from_array(np.float32(0.05), "scale"), numpy_helper.from_array(np.int8(0), "zero")]
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, 1000])],
        constants,
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), "graph.onnx")
    for compress in (False, True):
        openvino.save_model(openvino.Core().read_model("graph.onnx"), "graph.xml", compress_to_fp16=compress)
        sizes[quantized, compress] = os.path.getsize("graph.bin")
    print(f"quantized input {quantized}: {sizes[quantized, False]:,} bytes, compressed {sizes[quantized, True]:,}")
if sizes[False, True] > 0.6 * sizes[False, False] or sizes[True, True] < 0.9 * sizes[True, False]:
    sys.exit("The behavior changed: float16 compression works beside quantized values.")
PY
