#!/usr/bin/env bash
# Expected: a run that resumes from a checkpoint sees the batches of the uninterrupted run, with every sampling strategy
# of the Trainer: with random sampling it ends with the same bits on one CPU thread, also inside an epoch.
# Happens: with train_sampling_strategy="group_by_length", a checkpoint of the first epoch resumes exactly, but one of
# the second epoch does not: its rows come in another order, and the weights differ. No warning is printed.
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
from torch.nn.utils.rnn import pad_sequence
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

print("transformers", transformers.__version__, "torch", torch.__version__)
torch.set_num_threads(1)
size = {"vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
draws = torch.Generator().manual_seed(0)
rows = [
    {"input_ids": torch.randint(5, 50, (4 + number * 7 % 9,), generator=draws), "labels": number % 2}
    for number in range(26)
]


def padded(batch):
    ids = pad_sequence([row["input_ids"] for row in batch], batch_first=True)
    return {"input_ids": ids, "attention_mask": (ids > 0).long(), "labels": torch.tensor([row["labels"] for row in batch])}


def weights(output, strategy, checkpoint=None):
    torch.manual_seed(0)
    model = BertForSequenceClassification(BertConfig(**size))
    settings = TrainingArguments(
        output, per_device_train_batch_size=2, gradient_accumulation_steps=3, num_train_epochs=2, learning_rate=1e-3,
        train_sampling_strategy=strategy, save_strategy="steps", save_steps=3, seed=0, data_seed=0, use_cpu=True,
        report_to=[], logging_strategy="no", disable_tqdm=True,
    )
    trainer = Trainer(model=model, args=settings, train_dataset=rows, data_collator=padded)
    trainer.train(resume_from_checkpoint=checkpoint)
    return torch.cat([value.detach().flatten() for value in model.parameters()])


found = {}
for strategy in ("random", "group_by_length"):
    whole = weights(strategy, strategy)
    for step in (3, 6):
        resumed = weights(f"{strategy}-{step}", strategy, f"{strategy}/checkpoint-{step}")
        found[strategy, step] = float((resumed - whole).abs().max())
        print(f"{strategy}, resumed from step {step} of 10: largest difference of a weight {found[strategy, step]:.2g}")
if [difference > 1e-5 for difference in found.values()] != [False, False, False, True]:
    sys.exit("The behavior changed: runs resume exactly, or do not resume exactly, in other places.")
PY
