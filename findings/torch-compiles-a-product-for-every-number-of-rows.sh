#!/usr/bin/env bash
# Expected: a product in bfloat16 on a CPU takes as long for 65 rows as for 64, whatever was computed before.
# Happens: torch lets oneDNN compile each product for each number of rows. The first call with a number takes
# several times as long as the next one, and what was compiled takes 0.3 to 0.8 MB, for the last 1,024 shapes. Texts of
# ever other lengths, one after the other, meet a new number most of the time; benchmarks that repeat one text do not.
# Version: torch 2.13.0+cpu (oneDNN 3.12), on CPUs with AVX-512, Linux.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0 numpy
"$folder/venv/bin/python" - <<'PY'
import re
import statistics
import sys
import time
from pathlib import Path

import torch

if "avx512bw" not in Path("/proc/cpuinfo").read_text():
    sys.exit("Needs a CPU with AVX-512.")
weight = torch.randn(384, 384).bfloat16()


def resident():
    return int(re.search(r"VmRSS:\s*(\d+)", Path("/proc/self/status").read_text())[1]) / 1024


def microseconds(rows):
    x = torch.ones(rows, 384, dtype=torch.bfloat16)
    start = time.perf_counter()
    torch.nn.functional.linear(x, weight)
    return (time.perf_counter() - start) * 1e6


with torch.inference_mode():
    microseconds(1)
    before = resident()
    numbers = range(2, 302)
    first = statistics.median(map(microseconds, numbers))
    grown = resident() - before
    second = statistics.median(map(microseconds, numbers))
print(f"torch {torch.__version__}: the first call with a number of rows {first:.0f} us, the second {second:.0f} us; {grown / len(numbers):.2f} MB each")
if first < 2 * second:
    sys.exit("The behavior changed: a new number of rows costs little.")
PY
