#!/usr/bin/env bash
# Expected: one optimizer step over 4 micro-batches of 2 rows is the step over one batch of 8 rows, as the Trainer has
# promised since it counts the labels of a whole step.
# Happens: the forward functions of BERT's heads accept **kwargs, so the Trainer expects them to divide by the number of
# labels of the step and does not divide by the number of micro-batches; but these heads take the mean over their own
# micro-batch. The mean losses are added up: the gradient and the logged loss are 4 times too large. With label
# smoothing, whose loss the Trainer computes itself, the step is right; for question answering it is too.
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
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
    Trainer,
    TrainingArguments,
)

print("transformers", transformers.__version__, "torch", torch.__version__)
size = {"vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
config = BertConfig(**size, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, num_labels=2)


def rows(labels):
    draws = torch.Generator().manual_seed(0)
    found = []
    for _ in range(8):
        row = {"input_ids": torch.randint(5, 50, (12,), generator=draws), "attention_mask": torch.ones(12).long()}
        for name, size, most in labels:
            row[name] = torch.randint(0, most, size, generator=draws)
        found.append(row)
    return found


def step(cls, labels, batch, micro_batches, smoothing):
    torch.manual_seed(0)
    model = cls(config)
    before = torch.cat([value.detach().flatten() for value in model.parameters()])
    settings = TrainingArguments(
        "out", per_device_train_batch_size=batch, gradient_accumulation_steps=micro_batches, max_steps=1, optim="sgd",
        learning_rate=1e-2, lr_scheduler_type="constant", max_grad_norm=0.0, weight_decay=0.0, use_cpu=True,
        label_smoothing_factor=smoothing, report_to=[], save_strategy="no", disable_tqdm=True, logging_strategy="no",
    )
    loss = Trainer(model=model, args=settings, train_dataset=rows(labels)).train().training_loss
    return (before - torch.cat([value.detach().flatten() for value in model.parameters()])) / 1e-2, loss


tokens, one = [("labels", (12,), 2)], [("labels", (), 2)]
span = [("start_positions", (), 12), ("end_positions", (), 12)]
found = {}
for name, cls, labels, smoothing in (
    ("masked language modeling", BertForMaskedLM, tokens, 0.0),
    ("token classification", BertForTokenClassification, tokens, 0.0),
    ("sequence classification", BertForSequenceClassification, one, 0.0),
    ("token classification, label smoothing", BertForTokenClassification, tokens, 0.1),
    ("question answering", BertForQuestionAnswering, span, 0.0),
):
    (whole, loss), (accumulated, other) = (step(cls, labels, *size, smoothing) for size in ((8, 1), (2, 4)))
    found[name] = float(accumulated @ whole / (whole @ whole))
    print(f"{name}: gradient of 4 micro-batches / of one batch = {found[name]:.3f}; loss {other:.3f} and {loss:.3f}")
wrong = [name for name, ratio in found.items() if ratio > 3.9]
if wrong != list(found)[:3] or any(abs(ratio - 1) > 1e-3 for ratio in list(found.values())[3:]):
    sys.exit("The behavior changed: other heads have the gradient of one batch.")
PY
