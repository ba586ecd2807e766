#!/usr/bin/env bash
# Expected: a thread that calls torch.set_num_threads(1) computes with one thread until it sets another number.
# Happens: the number holds for the calling thread only, but the first use of torch in a thread applies the number that
# any thread set last, even after the thread's own call. So a new thread that chose 1 computes with 2 if another thread
# set 2 before it began to compute. With one call of torch.get_num_threads() before, which counts as a use, 1 stays.
# Version: torch 2.13.0+cpu, Linux.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0 numpy
"$folder/venv/bin/python" - <<'PY'
import sys
import threading

import torch


def number_after(uses_first):
    """The number of threads of a new thread that set 1, after the main thread has set 2."""
    has_set, go_on, found = threading.Event(), threading.Event(), []

    def run():
        if uses_first:
            torch.get_num_threads()
        torch.set_num_threads(1)
        has_set.set()
        go_on.wait()
        torch.ones(8) + 1
        found.append(torch.get_num_threads())

    thread = threading.Thread(target=run)
    thread.start()
    has_set.wait()
    torch.set_num_threads(2)
    go_on.set()
    thread.join()
    return found[0]


without, with_use = number_after(False), number_after(True)
print(f"torch {torch.__version__}: a new thread that set 1 has {without}; if it asked for the number before, {with_use}")
if (without, with_use) != (2, 1):
    sys.exit("The behavior changed: (2, 1) expected.")
PY
