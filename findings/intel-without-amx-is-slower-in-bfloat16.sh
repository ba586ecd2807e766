#!/usr/bin/env bash
# Expected: a CPU that reports AVX512_BF16 multiplies bfloat16 at least as fast as float32: on AMD's it takes half the
# time, and libraries choose bfloat16 by that flag.
# Happens: on an Intel Xeon of the fourth or fifth generation whose AMX is hidden from the machine (as in many virtual
# machines), the flag is there, and a product in bfloat16 takes 1.8 to 2 times as long as in float32, in torch (MKL and
# oneDNN) and in OpenVINO.
# Version: torch 2.13.0, openvino 2026.4.1; measured on family 6, model 207. On another CPU the script only says what it
# measured.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0 openvino==2026.4.1 numpy
"$folder/venv/bin/python" - <<'PY'
import sys
import time

import numpy as np
import openvino
import torch
from openvino import opset13 as ops

flags = torch.cpu.get_capabilities()
vendor = next((line for line in open("/proc/cpuinfo") if line.startswith("vendor_id")), "")
print("torch", torch.__version__, "openvino", openvino.__version__, vendor.strip())
print({name: flags.get(name) for name in ("avx512_bf16", "amx_bf16")})


def best(call):
    times = []
    for _ in range(12):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def by_torch(dtype):
    x, weight = (torch.randn(1024, 1024).to(dtype) for _ in range(2))
    return best(lambda: torch.nn.functional.linear(x, weight))


def by_openvino(kind):
    x = ops.parameter([1024, 1024], np.float32)
    weight = ops.constant(np.random.default_rng(0).random((1024, 1024), dtype=np.float32))
    model = openvino.Model([ops.matmul(x, weight, False, True)], [x])
    compiled = openvino.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": kind})
    given = np.random.default_rng(1).random((1024, 1024), dtype=np.float32)
    return best(lambda: compiled(given))


ratios = {
    "torch": by_torch(torch.bfloat16) / by_torch(torch.float32),
    "openvino": by_openvino(openvino.Type.bf16) / by_openvino(openvino.Type.f32),
}
for name, ratio in ratios.items():
    print(f"{name}: a product in bfloat16 takes {ratio:.2f} times as long as in float32")
if "GenuineIntel" in vendor and flags.get("avx512_bf16") and not flags.get("amx_bf16") and min(ratios.values()) < 1.2:
    sys.exit("The behavior changed: bfloat16 is not slower here.")
PY
