#!/usr/bin/env bash
# Expected: scaled_dot_product_attention gives the same numbers for [heads, tokens, width] as for the same tensor with a
# batch axis of 1: the documentation allows any leading axes.
# Happens: without the batch axis another kernel runs. In bfloat16 the result differs by up to 8e-3 (one step of the
# number format), so a text computed alone without the axis is not equal to the same text in a batch; with the axis it
# is, to the last bit.
# Version: torch 2.13.0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0 numpy
"$folder/venv/bin/python" - <<'PY'
import sys

import torch
import torch.nn.functional as F

print("torch", torch.__version__)
torch.manual_seed(0)
differs = {}
for length in (5, 31, 200):
    query, key, value = (torch.randn(4, 12, length, 32).bfloat16() for _ in range(3))
    batch = F.scaled_dot_product_attention(query, key, value)[0]
    alone = F.scaled_dot_product_attention(query[:1], key[:1], value[:1])[0]
    flat = F.scaled_dot_product_attention(query[0], key[0], value[0])
    differs[length] = [float((one.float() - batch.float()).abs().max()) for one in (alone, flat)]
    print(f"{length} tokens: with a batch axis of 1 it differs by {differs[length][0]}, without it by {differs[length][1]}")
if any(one for one, _ in differs.values()) or not all(other for _, other in differs.values()):
    sys.exit("The behavior changed: the batch axis makes no difference.")
PY
