#!/usr/bin/env bash
# Expected: torch.load(weights_only=True), the default since 2.6, opens every plain table of tensors that torch.save
# wrote, also with pickle_protocol=4, a documented argument of torch.save.
# Happens: it stops with "Unsupported operand 149": the restricted unpickler knows the instructions of protocol 2 alone.
# The same file opens with weights_only=False, that is, the safe way to read is the one that fails. Protocol 3, whose
# instructions occur here only in its header, opens.
# Version: torch 2.13.0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0 numpy
cd "$folder"
"$folder/venv/bin/python" - <<'PY'
import io
import pickle
import sys

import torch

print("torch", torch.__version__)
found = {}
for protocol in (2, 3, 4, 5):
    stream = io.BytesIO()
    torch.save({"w": torch.arange(6.0)}, stream, pickle_protocol=protocol)
    for safe in (True, False):
        stream.seek(0)
        try:
            torch.load(stream, weights_only=safe)
            found[protocol, safe] = "opens"
        except pickle.UnpicklingError as error:
            found[protocol, safe] = next(line for line in str(error).split("\n") if "Unsupported" in line)
        print(f"pickle_protocol={protocol}, weights_only={safe}: {found[protocol, safe]}")
expected = {(p, s): True for p in (2, 3, 4, 5) for s in (True, False)} | {(4, True): False, (5, True): False}
if {key: value == "opens" for key, value in found.items()} != expected:
    sys.exit("torch changed what weights_only=True opens")
PY
