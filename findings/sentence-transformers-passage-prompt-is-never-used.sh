#!/usr/bin/env bash
# Expected: encode_document uses "the first available of document / passage / corpus" of the prompts, as its
# documentation says, so a folder with the prompts "query" and "passage" (the names of the E5 models) gets the second one.
# Happens: every model has an own empty prompt "document", which is always found first. A folder's "passage" and "corpus"
# are never used: texts are embedded without their prompt, without a warning, while queries get theirs.
# Version: sentence-transformers 6.2.0 with transformers 5.23.0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q sentence-transformers==6.2.0 transformers==5.23.0 torch==2.13.0
"$folder/venv/bin/python" - "$folder/model" <<'PY'
import json
import sys
from pathlib import Path

import sentence_transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer, models, pre_tokenizers

print("sentence-transformers", sentence_transformers.__version__)
words = ["[UNK]", "query", "passage", ":", "the", "cat", "sat"]
tokenizer = Tokenizer(models.WordLevel({word: index for index, word in enumerate(words)}, unk_token="[UNK]"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=8)], device="cpu").save(sys.argv[1])
path = Path(sys.argv[1]) / "config_sentence_transformers.json"
prompts = {"prompts": {"query": "query: ", "passage": "passage: "}}
path.write_text(json.dumps(json.loads(path.read_text()) | prompts))
model = SentenceTransformer(sys.argv[1], device="cpu")
differences = {}
for role, encode in (("query", model.encode_query), ("passage", model.encode_document)):
    found, with_prompt = encode(["the cat sat"]), model.encode([f"{role}: the cat sat"])
    differences[role] = float(abs(found - with_prompt).max())
    print(f"{role}: differs by {differences[role]:.4f} from the text with its prompt")
if differences["query"] > 1e-5:
    sys.exit("The behavior changed: queries get no prompt either.")
if differences["passage"] < 1e-3:
    sys.exit("The behavior changed: documents get the prompt of passages.")
PY
