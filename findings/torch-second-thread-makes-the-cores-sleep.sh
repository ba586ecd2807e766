#!/usr/bin/env bash
# Expected: a second Python thread that once used torch, and now waits, does not change the speed of the first one.
# Happens: a network of small products takes 1.5 to 2 times as long for as long as the second thread exists. Each thread
# that runs an operator on several cores gets OpenMP threads of its own, which stay. Those of torch's wheels (libgomp)
# watch for the next operator only while the process has no more of them than cores; otherwise they sleep after each
# operator and must be woken for the next one. A server that loads its model in one thread and computes in another is in
# this state from the start.
# Version: torch 2.13.0+cpu with its libgomp, Linux, 2 cores.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0 numpy
cat > "$folder/check.py" <<'PY'
import os
import sys
import threading
import time

import torch

cores = len(os.sched_getaffinity(0))
if cores < 2:
    sys.exit("skipped: this needs at least 2 cores")
torch.set_num_threads(cores)
weights = [torch.randn(384, 384) / 20 for _ in range(150)]


def network():
    x = torch.ones(64, 384)
    for weight in weights:
        x = torch.nn.functional.linear(x, weight)


def milliseconds():
    taken = []
    with torch.inference_mode():
        for _ in range(150):
            start = time.perf_counter()
            network()
            taken.append(time.perf_counter() - start)
    return 1e3 * sorted(taken)[len(taken) // 2]


milliseconds()
before = milliseconds()
leave = threading.Event()
computed = threading.Event()


def other():
    torch.ones(512, 512) @ torch.ones(512, 512)
    network()
    computed.set()
    leave.wait()


thread = threading.Thread(target=other)
thread.start()
computed.wait()
after = milliseconds()
leave.set()
thread.join()
print(f"torch {torch.__version__}, {cores} cores: {before:.2f} ms, after another thread used torch {after:.2f} ms")
if after < 1.1 * before:
    sys.exit("changed: a second thread that used torch no longer slows the first one down")
PY
env -u OMP_NUM_THREADS "$folder/venv/bin/python" "$folder/check.py"
