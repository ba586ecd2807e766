#!/usr/bin/env bash
# Expected: sentence-transformers reads a model2vec folder (its StaticEmbedding says so, and model2vec writes a
# modules.json for it), so both give one text one vector.
# Happens: they agree on known words, with mapping and weights too. A text with an unknown word differs: model2vec leaves
# [UNK] out of the mean, StaticEmbedding averages its vector in. A text of unknown words only is zeros in one and the
# vector of [UNK] in the other.
# Version: model2vec 0.10.0 with sentence-transformers 6.2.0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q model2vec==0.10.0 sentence-transformers==6.2.0 transformers==5.23.0 torch==2.13.0
"$folder/venv/bin/python" - "$folder/model" <<'PY'
import sys
from importlib.metadata import version

import numpy as np
from model2vec import StaticModel
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer, models, pre_tokenizers

print("model2vec", version("model2vec"), "sentence-transformers", version("sentence-transformers"))
words = ["[PAD]", "[UNK]", "the", "cat", "dog", "sat"]
tokenizer = Tokenizer(models.WordLevel({word: index for index, word in enumerate(words)}, unk_token="[UNK]"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
vectors = np.random.default_rng(0).normal(size=(len(words), 8)).astype(np.float32)
weights = np.linspace(0.1, 1, len(words)).astype(np.float32)
model = StaticModel(vectors, tokenizer, config={}, normalize=False, weights=weights)
model.save_pretrained(sys.argv[1])
texts = ["the cat sat", "the zebra sat", "zebra"]
found, other = model.encode(texts), SentenceTransformer(sys.argv[1], device="cpu").encode(texts)
differences = np.abs(found - other).max(axis=1)
for text, difference in zip(texts, differences):
    print(f"{text!r}: differs by {difference:.4f}")
if differences[0] > 1e-5:
    sys.exit("The behavior changed: the vectors of known words differ too.")
if min(differences[1:]) < 1e-3:
    sys.exit("The behavior changed: unknown words are treated alike.")
PY
