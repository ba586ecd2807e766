#!/usr/bin/env bash
# Expected: a Longformer with another attention_window for each layer, which its documentation allows, takes texts of
#   any length up to its maximum, as it pads them itself.
# Happens: it pads to a multiple of the largest window only, so where another window does not divide that, most lengths
#   end in an AssertionError; the same texts padded by hand to a multiple of all windows give states.
# Version: transformers 5.23.0, torch 2.13.0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q transformers==5.23.0 torch==2.13.0
HF_HUB_OFFLINE=1 "$folder/venv/bin/python" - <<'PY'
import sys
import torch, transformers
from transformers import LongformerConfig, LongformerModel

transformers.utils.logging.set_verbosity_error()
print("transformers", transformers.__version__)
sizes = dict(vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=20)
model = LongformerModel(LongformerConfig(**sizes, attention_window=[64, 96], max_position_embeddings=514)).eval()
failed = 0
for length in (20, 96, 192, 200):
    ids = torch.randint(3, 50, (1, length))
    by_hand = torch.nn.functional.pad(ids, (0, -length % 192), value=1)
    with torch.inference_mode():
        model(by_hand, attention_mask=(by_hand != 1).long())
        try:
            model(ids)
            said = "states"
        except AssertionError as error:
            said, failed = str(error), failed + 1
    print(f"windows of 64 and 96, {length} tokens: {said}; padded by hand to {by_hand.shape[1]}: states")
if failed != 3:
    sys.exit("Other lengths than 192 work now, too.")
PY
