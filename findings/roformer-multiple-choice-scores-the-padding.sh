#!/usr/bin/env bash
# Expected: the score of an answer does not depend on the padding after it, which attention_mask drops.
# Happens: RoFormerForMultipleChoice takes the vector of the last column (summary_type is "last" unless config.json sets
# it), also where that column is padding: the score of the same text changes with every longer row in its batch.
# BertForMultipleChoice gives the same score.
# Version: transformers 5.23.0, torch 2.13.0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q transformers==5.23.0 torch==2.13.0 numpy==2.4.3
"$folder/venv/bin/python" - <<'PY'
import sys

import torch
import transformers

print("transformers", transformers.__version__)
sizes = dict(vocab_size=40, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32)
moved = {}
for kind in ("RoFormer", "Bert"):
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**sizes, initializer_range=0.5)
    model = getattr(transformers, f"{kind}ForMultipleChoice")(config).eval()
    ids = torch.tensor([[[2, 7, 8, 9, 3], [2, 11, 12, 13, 3]]])
    with torch.no_grad():
        alone = model(ids, attention_mask=torch.ones_like(ids)).logits
        padded = torch.nn.functional.pad(ids, (0, 4))
        longer = model(padded, attention_mask=(padded != 0).long()).logits
    moved[kind] = float((alone - longer).abs().max())
    print(f"{kind}: scores {alone.tolist()} alone, {longer.tolist()} with padding")
if moved["RoFormer"] < 1e-3 or moved["Bert"] > 1e-5:
    sys.exit("The behavior changed: padding does not change the score.")
PY
