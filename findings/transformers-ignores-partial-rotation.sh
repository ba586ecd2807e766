#!/usr/bin/env bash
# Expected: partial_rotary_factor=0.5 rotates half of each head, or a model whose code cannot do that refuses it.
# Happens: configurations of Nomic BERT, GTE, Jina Embeddings v3 and EuroBERT accept the setting, move it to
#   rope_parameters and save it, but the default kind of rotary positions ignores it: all dimensions are rotated, and the
#   numbers are those without it. With any other kind (here linear) the first call fails with a size of tensors.
# Version: transformers 5.23.0, torch 2.13.0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q transformers==5.23.0 torch==2.13.0
HF_HUB_OFFLINE=1 "$folder/venv/bin/python" - <<'PY'
import sys

import torch
import transformers

transformers.utils.logging.set_verbosity_error()
print("transformers", transformers.__version__)
sizes = dict(vocab_size=50, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16)
sizes |= dict(max_position_embeddings=64, pad_token_id=0)
ids = torch.arange(1, 12)[None]
is_changed = False
for kind in ("nomic_bert", "gte", "jina_embeddings_v3", "eurobert"):
    found = []
    for setting in ({}, {"partial_rotary_factor": 0.5}):
        torch.manual_seed(0)
        config = transformers.AutoConfig.for_model(kind, **sizes, **setting)
        with torch.no_grad():
            found.append(transformers.AutoModel.from_config(config).eval()(ids).last_hidden_state)
    kept = config.rope_parameters.get("partial_rotary_factor")
    rope = {"rope_type": "linear", "factor": 2.0, "rope_theta": 100.0, "partial_rotary_factor": 0.5}
    config = transformers.AutoConfig.for_model(kind, **sizes, rope_parameters=rope)
    try:
        transformers.AutoModel.from_config(config).eval()(ids)
        said = "no error"
    except RuntimeError as error:
        said = str(error).splitlines()[0][:90]
    print(f"{kind}: setting {kept}, same numbers {torch.equal(*found)}; linear: {said}")
    is_changed |= kept != 0.5 or not torch.equal(*found) or "size of tensor" not in said
sys.exit(1 if is_changed else 0)
PY
