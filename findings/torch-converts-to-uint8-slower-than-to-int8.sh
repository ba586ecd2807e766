#!/usr/bin/env bash
# Expected: converting a float tensor to uint8 takes about as long as converting it to int8: the same bytes are read and
# written.
# Happens: on a CPU with AVX-512, uint8 takes 2 to 3 times as long as int8 from float32, and 4 to 5 times from bfloat16.
# From int32 both take the same time.
# Version: torch 2.13.0+cpu.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0 numpy
"$folder/venv/bin/python" - <<'PY'
import sys
import time

import torch

print("torch", torch.__version__, torch.backends.cpu.get_cpu_capability())
torch.set_num_threads(1)
values = torch.arange(2048 * 384).remainder(127).view(2048, 384)


def best(source, target):
    x, times = values.to(source), []
    for _ in range(60):
        start = time.perf_counter()
        x.to(target)
        times.append(time.perf_counter() - start)
    return min(times) * 1e6


ratios = {}
for source in (torch.float32, torch.bfloat16, torch.int32):
    unsigned, signed = best(source, torch.uint8), best(source, torch.int8)
    ratios[source] = unsigned / signed
    print(f"{source}: to uint8 {unsigned:.0f} microseconds, to int8 {signed:.0f}, {ratios[source]:.1f} times")
if ratios[torch.float32] < 1.5 and ratios[torch.bfloat16] < 1.5:
    sys.exit("The behavior changed: uint8 is as fast as int8.")
PY
