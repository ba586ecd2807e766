#!/usr/bin/env bash
# Expected: converting a graph to float16 rounds weights and activations; integer results, such as the bucket of a
# distance between two tokens (T5, MPNet), stay the same, and so do the angles of rotary positions.
# Happens: the logarithm between two integers is rounded too, and the bucket of the distances 16, 32 and 64 is one too
# low, for every text that is longer. Angles are rounded before their cosine: it is wrong by more than 0.3 up to 2,000
# tokens. Only positions are affected, so short texts agree.
# Version: onnxruntime 1.32.0, onnx 1.23.2.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q onnxruntime==1.32.0 onnx==1.23.2
"$folder/venv/bin/python" - <<'PY'
import math
import sys

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.transformers.float16 import convert_float_to_float16

print("onnxruntime", onnxruntime.__version__)


def constant(name, value):
    return numpy_helper.from_array(np.float32(value), name)


def outputs(nodes, constants, kind, values):
    """The output of a graph from int64 to `kind`, in float32 and converted to float16."""
    found = []
    for half in (False, True):
        graph = helper.make_graph(
            nodes,
            "graph",
            [helper.make_tensor_value_info("x", TensorProto.INT64, [None])],
            [helper.make_tensor_value_info("y", kind, [None])],
            constants,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        if half:
            model = convert_float_to_float16(model, keep_io_types=True)
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        found.append(session.run(None, {"x": values})[0])
    return found


# 8 + long(log(distance / 8) / log(128 / 8) * 8), as T5 and MPNet have it, without the exact buckets below 8.
buckets = [
    helper.make_node("Cast", ["x"], ["float"], to=TensorProto.FLOAT),
    helper.make_node("Div", ["float", "exact"], ["ratio"]),
    helper.make_node("Log", ["ratio"], ["log"]),
    helper.make_node("Div", ["log", "range"], ["part"]),
    helper.make_node("Mul", ["part", "exact"], ["steps"]),
    helper.make_node("Cast", ["steps"], ["y"], to=TensorProto.INT64),
]
distances = np.arange(8, 128)
full, half = outputs(
    buckets, [constant("exact", 8), constant("range", math.log(16))], TensorProto.INT64, distances
)
moved = distances[full != half].tolist()
print("distances in another bucket:", moved)

angles = [
    helper.make_node("Cast", ["x"], ["float"], to=TensorProto.FLOAT),
    helper.make_node("Mul", ["float", "frequency"], ["angle"]),
    helper.make_node("Cos", ["angle"], ["y"]),
]
full, half = outputs(angles, [constant("frequency", 0.7)], TensorProto.FLOAT, np.arange(2000))
wrong = float(np.abs(full - half).max())
print("largest error of a cosine up to 2,000 tokens:", round(wrong, 3))
if not {16, 32, 64} <= set(moved) or wrong < 0.3:
    sys.exit("The behavior changed: positions keep their precision.")
PY
