#!/usr/bin/env bash
# Expected: get_profiling_info() gives the times of the layers in the latest inference of a request, so their sum is about
# the time that this inference took.
# Happens: on the CPU each time is the average over all inferences of the compiled model since it was made, also those
# with inputs of another size and of other requests: after many short inputs a long one seems to take a fraction of its
# time.
# Version: openvino 2026.4.1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q openvino==2026.4.1 numpy
"$folder/venv/bin/python" - <<'PY'
import sys
import time

import numpy as np
import openvino
from openvino import opset13 as ops

print("openvino", openvino.__version__)
x = ops.parameter([-1, 1024], np.float32)
weight = ops.constant(np.random.default_rng(0).random((1024, 1024), dtype=np.float32))
model = openvino.Model([ops.matmul(x, weight, False, True)], [x])
compiled = openvino.Core().compile_model(model, "CPU", {"PERF_COUNT": True, "PERFORMANCE_HINT": "LATENCY"})
short, long = np.ones((16, 1024), dtype=np.float32), np.ones((4096, 1024), dtype=np.float32)


def counted(request):
    """Milliseconds of the latest inference by the counters."""
    return sum(one.real_time.total_seconds() for one in request.get_profiling_info()) * 1e3


def timed(request, rows):
    start = time.perf_counter()
    request.infer([rows])
    return (time.perf_counter() - start) * 1e3


request = compiled.create_infer_request()
timed(request, long)
first = (timed(request, long), counted(request))
for _ in range(200):
    timed(request, short)
later = (timed(request, long), counted(request))
print(f"long input first:              {first[0]:.1f} ms, by the counters {first[1]:.1f} ms")
print(f"long input after 200 short:    {later[0]:.1f} ms, by the counters {later[1]:.1f} ms")
other = compiled.create_infer_request()
alone = (timed(other, long), counted(other))
print(f"long input in another request: {alone[0]:.1f} ms, by the counters {alone[1]:.1f} ms")
if later[1] > later[0] / 3:
    sys.exit("The behavior changed: the counters are those of the latest inference.")
PY
