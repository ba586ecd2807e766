#!/usr/bin/env bash
# Expected: save_pretrained names every tensor as in state_dict.
# Happens: an EsmModel with rotary positions stores its frequencies as "encoder.layer.*.attention.self.rotary_embeddings
# .inv_freq", with a star in the name: the pattern that maps old names to new ones is written backwards. Programs that
# read the file by the names of state_dict do not find rotary_embeddings.inv_freq.
# Version: transformers 5.23.0, torch 2.13.0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q transformers==5.23.0 torch==2.13.0 numpy==2.4.3
cd "$folder"
"$folder/venv/bin/python" - <<'PY'
import sys

import transformers
from safetensors.torch import load_file

print("transformers", transformers.__version__)
config = transformers.EsmConfig(
    vocab_size=33, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=20,
    position_embedding_type="rotary", pad_token_id=1, mask_token_id=32,
)
model = transformers.EsmModel(config)
model.save_pretrained("saved")
stored = set(load_file("saved/model.safetensors"))
print("in state_dict only:", sorted(set(model.state_dict()) - stored))
print("in the file only:", sorted(stored - set(model.state_dict())))
if not any("*" in name for name in stored):
    sys.exit("The behavior changed: no name has a star.")
PY
