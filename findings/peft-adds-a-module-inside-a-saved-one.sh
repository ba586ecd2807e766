#!/usr/bin/env bash
# Expected: a LoRA configuration with task_type QUESTION_ANS and modules_to_save=["qa_classifier"], the whole question
# head of BigBird, can be saved, as it can without the task type.
# Happens: for this task PEFT adds the module qa_outputs by itself, which is inside qa_classifier; both are wrapped, and
# save_pretrained raises a KeyError. Without task_type the same adapter is saved and opens.
# Version: peft 0.21.2, transformers 5.23.0, torch 2.13.0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q peft==0.21.2 transformers==5.23.0 torch==2.13.0
HF_HUB_OFFLINE=1 "$folder/venv/bin/python" - "$folder" <<'PY'
import sys

import peft
import transformers

transformers.utils.logging.set_verbosity_error()
print("peft", peft.__version__, "transformers", transformers.__version__)
config = transformers.BigBirdConfig(
    vocab_size=80, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=20,
    attention_type="original_full",
)
seen = {}
for task in (None, "QUESTION_ANS"):
    model = transformers.BigBirdForQuestionAnswering(config)
    lora = peft.LoraConfig(task_type=task, target_modules=["query"], modules_to_save=["qa_classifier"])
    place = f"{sys.argv[1]}/{task}"
    try:
        peft.get_peft_model(model, lora).save_pretrained(place)
        peft.PeftModel.from_pretrained(transformers.BigBirdForQuestionAnswering(config), place)
        seen[task] = "saved and opened"
    except KeyError as error:
        seen[task] = f"KeyError: {error}"
    print(f"task_type {task}: {seen[task]}")
if seen[None] != "saved and opened" or "KeyError" not in seen["QUESTION_ANS"]:
    sys.exit("The behavior changed.")
PY
