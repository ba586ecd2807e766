#!/usr/bin/env bash
# Expected: the zero-shot pipeline with multi_label=True scores a label as entailment against contradiction, as its
#   documentation says, whatever the order of the classes of the model; it looks up entailment by its name.
# Happens: the class set against entailment is the first one, or the last one where entailment is first: with
#   (neutral, contradiction, entailment) or (entailment, contradiction, neutral) that is neutral, without a warning.
# Version: transformers 5.23.0, torch 2.13.0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q transformers==5.23.0 torch==2.13.0
HF_HUB_OFFLINE=1 "$folder/venv/bin/python" - "$folder" <<'PY'
import sys
from pathlib import Path
import torch, transformers
from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast, pipeline

folder = Path(sys.argv[1])
words = "[PAD] [UNK] [CLS] [SEP] [MASK] the cat sat this example is about animals rivers .".split()
(folder / "vocab.txt").write_text("\n".join(words))
tokenizer = BertTokenizerFast.from_pretrained(folder)
sizes = dict(vocab_size=len(words), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32)
print("transformers", transformers.__version__)
neutral = 0
for labels in (
    ("contradiction", "neutral", "entailment"),
    ("neutral", "contradiction", "entailment"),
    ("entailment", "contradiction", "neutral"),
):
    torch.manual_seed(0)
    names = dict(enumerate(labels))
    config = BertConfig(**sizes, initializer_range=1.0, id2label=names, label2id={one: n for n, one in names.items()})
    model = BertForSequenceClassification(config).eval()
    found = pipeline("zero-shot-classification", model=model, tokenizer=tokenizer)(
        "the cat sat", ["animals", "rivers"], multi_label=True, hypothesis_template="this example is about {}."
    )
    score = dict(zip(found["labels"], found["scores"]))["animals"]
    with torch.inference_mode():
        logits = model(**tokenizer("the cat sat", "this example is about animals.", return_tensors="pt")).logits[0]
    against = {
        name: float(torch.sigmoid(logits[labels.index("entailment")] - logits[labels.index(name)]))
        for name in ("contradiction", "neutral")
    }
    used = min(against, key=lambda name: abs(against[name] - score))
    neutral += used == "neutral"
    print(f"{', '.join(labels)}: {score:.4f} is entailment against {used}")
if neutral != 2:
    sys.exit("The pipeline now finds the class contradiction by its name.")
PY
