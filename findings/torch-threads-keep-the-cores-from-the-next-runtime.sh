#!/usr/bin/env bash
# Expected: an operation of torch that takes 20 microseconds, before each call of another runtime in the same process,
# costs about 20 microseconds a call.
# Happens: if the operation runs on several threads, torch's idle threads stay busy for 2 to 5 milliseconds, waiting for
# the next one, on cores that the other runtime needs. A call of ONNX Runtime with as many threads as there are cores
# takes 10 to 25% longer; with one thread of torch for that operation it does not.
# Version: torch 2.13.0+cpu with its libgomp, onnxruntime 1.31.1, Linux.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0 onnxruntime==1.31.1 onnx numpy
"$folder/venv/bin/python" - <<'PY'
import statistics
import sys
import time

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper

print("torch", torch.__version__, "onnxruntime", onnxruntime.__version__, "threads", torch.get_num_threads())
if torch.get_num_threads() < 2:
    sys.exit("Needs at least two cores.")
large, small = torch.randn(128, 384), torch.randn(16, 384)  # the large sum runs on several threads, the small one does not


def waiting(x):
    """Milliseconds of CPU time during 20 ms of sleep after a sum of x."""
    used = []
    for _ in range(20):
        x.sum(0)
        start = time.process_time()
        time.sleep(0.02)
        used.append((time.process_time() - start) * 1e3)
    return statistics.median(used)


after_large, after_small = waiting(large), waiting(small)
print(f"CPU time while asleep, after a sum on several threads {after_large:.1f} ms, on one {after_small:.1f} ms")

weights = [numpy_helper.from_array(np.eye(768, dtype=np.float32), f"w{number}") for number in range(24)]
nodes = [helper.make_node("MatMul", [f"x{number}", f"w{number}"], [f"x{number + 1}"]) for number in range(24)]
shapes = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [128, 768]) for name in ("x0", "x24")]
graph = helper.make_graph(nodes, "products", shapes[:1], shapes[1:], weights)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = torch.get_num_threads()
session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
x = {"x0": np.ones((128, 768), dtype=np.float32)}


def call(before):
    """Median milliseconds of a call of the graph, after an operation of torch."""
    times = []
    for _ in range(60):
        before()
        start = time.perf_counter()
        session.run(None, x)
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


call(lambda: None)
alone, after = call(lambda: small.sum(0)), call(lambda: large.sum(0))
print(f"a call of ONNX Runtime: {alone:.2f} ms; after a sum on several threads {after:.2f} ms ({after / alone:.2f} times)")
if after_large < 5 * after_small or after_large < 1:
    sys.exit("The behavior changed: torch's threads sleep at once.")
PY
