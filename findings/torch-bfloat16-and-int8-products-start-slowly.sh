#!/usr/bin/env bash
# Expected: a tiny matrix product takes the same few microseconds in bfloat16 and in int8 as in float32 on a CPU.
# Happens: in float32 torch calls MKL, which starts in 2 to 3 microseconds. In bfloat16 and int8 it calls oneDNN, and needs
# 4 to 10 times as long to prepare each call: as much as the arithmetic of a product of 32 x 384 by 384 x 384 numbers
# in int8. A network of six layers has 24 products, so one short text gains little from int8.
# Version: torch 2.13.0+cpu (oneDNN 3.12), on CPUs with AVX-512, Linux.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0 numpy
"$folder/venv/bin/python" - <<'PY'
import sys
import time
from pathlib import Path

import torch

if "avx512bw" not in Path("/proc/cpuinfo").read_text():
    sys.exit("Needs a CPU with AVX-512.")
torch.set_num_threads(1)
x, weight, bias = torch.randn(8, 32), torch.randn(32, 32), torch.randn(32)
low = [one.bfloat16() for one in (x, weight, bias)]
numbers = torch.randint(0, 255, (8, 32), dtype=torch.uint8)
packed = torch.ops.onednn.qlinear_prepack(torch.randint(-127, 127, (32, 32), dtype=torch.int8), [8, 32])
scales, zeros = torch.rand(32), torch.zeros(32, dtype=torch.int32)


def quantized():
    torch.ops.onednn.qlinear_pointwise(numbers, 0.02, 128, packed, scales, zeros, bias, 1.0, 0, torch.float32, "none", [], "")


def microseconds(call):
    times = []
    for _ in range(3000):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return sorted(times)[1500] * 1e6


with torch.inference_mode():
    plain = microseconds(lambda: torch.nn.functional.linear(x, weight, bias))
    bfloat16 = microseconds(lambda: torch.nn.functional.linear(*low))
    int8 = microseconds(quantized)
print(f"torch {torch.__version__}, 8 x 32 by 32 x 32: float32 {plain:.1f} us, bfloat16 {bfloat16:.1f} us, int8 {int8:.1f} us")
if min(bfloat16, int8) < 2 * plain:
    sys.exit("The behavior changed: the products start equally fast.")
PY
