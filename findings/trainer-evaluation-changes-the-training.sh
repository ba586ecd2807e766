#!/usr/bin/env bash
# Expected: evaluating a model during training does not change the weights that are trained: the evaluation has no
# dropout, computes no gradient, and the seed is the same.
# Happens: each pass over a DataLoader draws a seed for workers from torch's global generator, also without workers and
# shuffling. That generator draws the dropout masks, so a Trainer that evaluates every step ends with other weights than
# one that does not, or that evaluates at other steps.
# Version: transformers 5.23.0, torch 2.13.0, accelerate 1.15.0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q transformers==5.23.0 torch==2.13.0 accelerate==1.15.0
cd "$folder"
"$folder/venv/bin/python" - <<'PY' 2> errors || { cat errors; exit 1; }
import sys

import torch
import transformers
from torch.utils.data import DataLoader
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

print("transformers", transformers.__version__, "torch", torch.__version__)
torch.set_num_threads(1)
size = {"vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
draws = torch.Generator().manual_seed(0)
rows = [{"input_ids": torch.randint(5, 50, (12,), generator=draws), "labels": torch.tensor(n % 2)} for n in range(16)]


def weights(dropout, **evaluation):
    torch.manual_seed(0)
    model = BertForSequenceClassification(
        BertConfig(**size, hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout)
    )
    settings = TrainingArguments(
        "out", per_device_train_batch_size=4, max_steps=8, learning_rate=1e-3, seed=0, use_cpu=True, report_to=[],
        save_strategy="no", logging_strategy="no", disable_tqdm=True, **evaluation,
    )
    Trainer(model=model, args=settings, train_dataset=rows, eval_dataset=rows[:4]).train()
    return torch.cat([value.detach().flatten() for value in model.parameters()])


often = {"eval_strategy": "steps", "eval_steps": 1}
found = {}
for dropout in (0.0, 0.1):
    without = weights(dropout)
    found[dropout] = float((weights(dropout, **often) - without).abs().max())
    print(f"dropout {dropout}: largest difference of a weight with and without evaluation {found[dropout]:.2g}; two runs")
    print(f"  without evaluation differ by {float((weights(dropout) - without).abs().max()):.2g}")
torch.manual_seed(0)
plain = torch.rand(1)
torch.manual_seed(0)
list(DataLoader([1, 2, 3]))
print("the global generator after a pass over DataLoader([1, 2, 3]):", "changed" if torch.rand(1) != plain else "as before")
if found[0.0] != 0 or found[0.1] < 1e-5:
    sys.exit("The behavior changed: evaluation does not change the training, or changes it without dropout.")
PY
