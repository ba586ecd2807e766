#!/usr/bin/env bash
# Expected: DebertaModel.from_pretrained(folder, dtype=torch.bfloat16), or the dtype "auto" of version 5 on a folder saved
# in bfloat16, computes in bfloat16, as model.to(torch.bfloat16) does.
# Happens: q_bias and v_bias are created as float32 and stay so on loading, all other weights are bfloat16. The first
# call fails with a RuntimeError about the two types. float16 fails in the same way.
# Version: transformers 5.23.0 with torch 2.13.0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q transformers==5.23.0 torch==2.13.0
"$folder/venv/bin/python" - "$folder/model" <<'PY'
import sys

import torch
import transformers

print("transformers", transformers.__version__, "torch", torch.__version__)
sizes = {"vocab_size": 50, "hidden_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 30}
ids = torch.arange(5)[None]
transformers.DebertaModel(transformers.DebertaConfig(**sizes)).save_pretrained(sys.argv[1])
cast = transformers.DebertaModel.from_pretrained(sys.argv[1]).to(torch.bfloat16)
print("model.to(bfloat16):", cast(input_ids=ids).last_hidden_state.dtype)
loaded = transformers.DebertaModel.from_pretrained(sys.argv[1], dtype=torch.bfloat16)
print("from_pretrained(dtype=bfloat16):", {str(one.dtype) for one in loaded.parameters()})
try:
    loaded(input_ids=ids)
except RuntimeError as error:
    print("RuntimeError:", error)
else:
    sys.exit("The behavior changed: the model runs.")
PY
