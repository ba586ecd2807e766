#!/usr/bin/env bash
# Expected: the Trainer's weight decay leaves out biases and normalization layers, and decays embeddings and matrices, as
# it does with BERT's tables of words, positions and segments.
# Happens: parameters are chosen by name, and everything with "bias" in its name is left out. The table of relative
# positions of MPNet and T5 (relative_attention_bias.weight) is a matrix of embeddings, and is not decayed.
# Version: transformers 5.23.0, torch 2.13.0, accelerate 1.15.0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q transformers==5.23.0 torch==2.13.0 accelerate==1.15.0
cd "$folder"
"$folder/venv/bin/python" - <<'PY' 2> errors || { cat errors; exit 1; }
import sys

import transformers
from transformers import (
    BertConfig,
    BertForMaskedLM,
    MPNetConfig,
    MPNetForMaskedLM,
    T5Config,
    T5ForConditionalGeneration,
    Trainer,
    TrainingArguments,
)

print("transformers", transformers.__version__)
size = {"vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
models = [
    BertForMaskedLM(BertConfig(**size)),
    MPNetForMaskedLM(MPNetConfig(**size)),
    T5ForConditionalGeneration(T5Config(vocab_size=50, d_model=32, d_kv=8, d_ff=64, num_layers=1, num_heads=2)),
]
found = []
for model in models:
    arguments = TrainingArguments("out", weight_decay=0.01, use_cpu=True, report_to=[])
    trainer = Trainer(model=model, args=arguments)
    trainer.create_optimizer()
    decayed = {
        id(one) for group in trainer.optimizer.param_groups if group["weight_decay"] for one in group["params"]
    }
    spared = [name for name, value in model.named_parameters() if value.ndim > 1 and id(value) not in decayed]
    print(f"{type(model).__name__}: matrices without weight decay: {', '.join(spared) or 'none'}")
    found.append(len(spared))
if found != [0, 1, 2]:
    sys.exit("The behavior changed: other matrices have weight decay.")
PY
