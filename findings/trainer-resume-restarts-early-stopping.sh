#!/usr/bin/env bash
# Expected: a run with early stopping that resumes from a checkpoint stops at the step where the uninterrupted run stops;
# the checkpoint knows the best score and the step of it.
# Happens: the number of evaluations without a better score is stored in trainer_state.json, but is not read again: the
# count begins at 0 again, and the resumed run trains longer and computes other checkpoints. It is read only with
# restore_callback_states_from_checkpoint=True.
# Version: transformers 5.23.0, torch 2.13.0, accelerate 1.15.0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q transformers==5.23.0 torch==2.13.0 accelerate==1.15.0
cd "$folder"
"$folder/venv/bin/python" - <<'PY' 2> errors || { cat errors; exit 1; }
import json
import sys

import torch
import transformers
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    EarlyStoppingCallback,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

print("transformers", transformers.__version__, "torch", torch.__version__)
size = {"vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
draws = torch.Generator().manual_seed(0)
rows = [{"input_ids": torch.randint(5, 50, (12,), generator=draws), "labels": torch.tensor(n % 2)} for n in range(32)]
SCORES = {1: 0.5, 2: 0.9} | {step: 0.9 - 0.05 * step for step in range(3, 17)}  # the best is at step 2


class Steps(TrainerCallback):
    step = 0

    def on_step_end(self, args, state, control, **kwargs):
        Steps.step = state.global_step


def last_step(output, checkpoint=None, **settings):
    torch.manual_seed(0)
    arguments = TrainingArguments(
        output, per_device_train_batch_size=4, num_train_epochs=2, eval_strategy="steps", eval_steps=1, save_steps=1,
        metric_for_best_model="score", greater_is_better=True, load_best_model_at_end=True, use_cpu=True, report_to=[],
        logging_strategy="no", disable_tqdm=True, **settings,
    )
    trainer = Trainer(
        model=BertForSequenceClassification(BertConfig(**size)), args=arguments, train_dataset=rows, eval_dataset=rows,
        compute_metrics=lambda prediction: {"score": SCORES[Steps.step]}, callbacks=[Steps(), EarlyStoppingCallback(3)],
    )
    trainer.train(resume_from_checkpoint=checkpoint)
    return trainer.state.global_step


whole = last_step("whole")
state = json.load(open("whole/checkpoint-4/trainer_state.json"))["stateful_callbacks"]["EarlyStoppingCallback"]
print("patience 3, best score at step 2: stops at step", whole)
print("stored at step 4:", state["attributes"])
resumed = last_step("resumed", "whole/checkpoint-4")
print("resumed from step 4: stops at step", resumed)
restored = last_step("restored", "whole/checkpoint-4", restore_callback_states_from_checkpoint=True)
print("resumed with restore_callback_states_from_checkpoint: stops at step", restored)
if (whole, resumed, restored) != (5, 7, 5):
    sys.exit("The behavior changed: the resumed run stops at another step.")
PY
