#!/usr/bin/env bash
# Expected: unmerge_adapter undoes merge_adapter, so a server can merge an adapter for speed and later go back to the base
# model or to another adapter.
# Happens: the update is added to the weights and then subtracted from the rounded sum; the weights of the base are not
# kept. In bfloat16 most weights of the changed layers differ after one merge, and more after each further one.
# Version: peft 0.21.2, transformers 5.23.0, torch 2.13.0, accelerate 1.15.0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q peft==0.21.2 transformers==5.23.0 torch==2.13.0 accelerate==1.15.0
cd "$folder"
"$folder/venv/bin/python" - <<'PY' 2> errors || { cat errors; exit 1; }
import sys

import peft
import torch
from transformers import BertConfig, BertForSequenceClassification

print("peft", peft.__version__, "torch", torch.__version__)
size = {"vocab_size": 50, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
found = {}
for dtype in (torch.float32, torch.bfloat16):
    torch.manual_seed(0)
    base = BertForSequenceClassification(BertConfig(**size)).to(dtype).eval()
    config = peft.LoraConfig(task_type="SEQ_CLS", r=8, lora_alpha=16, init_lora_weights=False)
    model = peft.get_peft_model(base, config).eval()
    before = {
        name: value.detach().clone() for name, value in model.named_parameters() if name.endswith("base_layer.weight")
    }
    for times in range(1, 101):
        model.merge_adapter()
        model.unmerge_adapter()
        if times in (1, 100):
            now = {name: value for name, value in model.named_parameters() if name in before}
            changed = torch.cat([(now[name] != before[name]).flatten() for name in before]).float().mean()
            largest = max(float((now[name].float() - before[name].float()).abs().max()) for name in before)
            found[dtype, times] = float(changed)
            print(f"{dtype}, merged and unmerged {times} times: {changed:.0%} of the weights differ, by up to {largest:.1e}")
if not (found[torch.float32, 1] > 0.01 and found[torch.bfloat16, 1] > 0.3):
    sys.exit("The behavior changed: unmerge_adapter restores the weights of the base.")
PY
