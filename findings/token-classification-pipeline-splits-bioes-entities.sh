#!/usr/bin/env bash
# Expected: the token-classification pipeline with aggregation_strategy="simple" gives one entity for B-PER E-PER, and
#   two for S-PER S-PER, as BIOES tags mean.
# Happens: only the prefixes B- and I- are known. B-PER E-PER gives two entities, S-PER S-PER one, all of type PER, so
#   that nothing shows it.
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
from transformers import BertConfig, BertForTokenClassification, BertTokenizerFast, pipeline

folder = Path(sys.argv[1])
words = "[PAD] [UNK] [CLS] [SEP] [MASK] ada lovelace met charles babbage".split()
(folder / "vocab.txt").write_text("\n".join(words))
tokenizer = BertTokenizerFast.from_pretrained(folder)
labels = ["O", "B-PER", "I-PER", "E-PER", "S-PER"]
names = dict(enumerate(labels))
sizes = dict(vocab_size=len(words), hidden_size=10, num_hidden_layers=0, num_attention_heads=2, intermediate_size=32)
config = BertConfig(**sizes, id2label=names, label2id={one: n for n, one in names.items()})
model = BertForTokenClassification(config).eval()
with torch.no_grad():  # without layers, and one-hot embeddings: the tag of a word is a row of the classifier
    embeddings = model.bert.embeddings
    embeddings.word_embeddings.weight.copy_(torch.eye(len(words)))
    embeddings.position_embeddings.weight.zero_()
    embeddings.token_type_embeddings.weight.zero_()
    model.classifier.weight.zero_()
    model.classifier.bias.copy_(torch.tensor([1.0, 0, 0, 0, 0]))
    for word, tag in {"ada": "B-PER", "lovelace": "E-PER", "charles": "S-PER", "babbage": "S-PER"}.items():
        model.classifier.weight[labels.index(tag), words.index(word)] = 9
tag = pipeline("token-classification", model=model, tokenizer=tokenizer)
group = pipeline("token-classification", model=model, tokenizer=tokenizer, aggregation_strategy="simple")
text = "ada lovelace met charles babbage"
print("transformers", transformers.__version__)
print("tags:", [(one["word"], one["entity"]) for one in tag(text)])
found = [(one["word"], one["entity_group"]) for one in group(text)]
print("entities:", found)
if [one[0] for one in found] != ["ada", "lovelace", "charles babbage"]:
    sys.exit("The pipeline now groups BIOES tags.")
PY
