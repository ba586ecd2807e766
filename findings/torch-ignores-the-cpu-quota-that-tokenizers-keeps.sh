#!/usr/bin/env bash
# Expected: in a container with a CPU quota (docker --cpus, limits of Kubernetes), the libraries of one program start as
# many threads as the quota allows, or all as many as the machine has cores.
# Happens: tokenizers starts as many threads as the quota, torch one for each core of the machine. With more threads than
# the quota, the kernel stops all of them for the rest of each period of 100 ms, so short calls take up to that long.
# Version: torch 2.13.0+cpu, tokenizers 0.23.3, Linux, control groups of version 1 and 2.
set -euo pipefail
[ "$(id -u)" = 0 ] && [ "$(nproc)" -gt 1 ] || { echo "Needs root and two cores." >&2; exit 1; }
folder=$(mktemp -d)
name="quota-$$"
if [ -f /sys/fs/cgroup/cgroup.controllers ]; then group="/sys/fs/cgroup/$name"; else group="/sys/fs/cgroup/cpu/$name"; fi
trap 'rm -rf "$folder"; rmdir "$group" 2>/dev/null || true' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0 tokenizers==0.23.3 numpy
mkdir "$group"
if [ -f "$group/cpu.max" ]; then echo "100000 100000" > "$group/cpu.max"; else echo 100000 > "$group/cpu.cfs_quota_us"; fi
cat > "$folder/count.py" <<'PY'
import os
import sys

from tokenizers import Tokenizer
from tokenizers.models import WordLevel

os.environ["TOKENIZERS_PARALLELISM"] = "true"
tokenizer = Tokenizer(WordLevel({"a": 0, "?": 1}, unk_token="?"))
before = len(os.listdir("/proc/self/task"))
tokenizer.encode_batch(["a"] * 1000)
text_threads = len(os.listdir("/proc/self/task")) - before

import torch

print(f"torch {torch.__version__}: {torch.get_num_threads()} threads; tokenizers: {text_threads} threads; cores: {os.cpu_count()}")
if torch.get_num_threads() == 1 or text_threads != 1:
    sys.exit("The behavior changed: both keep to the quota, or neither.")
PY
echo "With a quota of one core:"
sh -c 'echo $$ > "$1/cgroup.procs"; exec "$2" "$3"' - "$group" "$folder/venv/bin/python" "$folder/count.py"
