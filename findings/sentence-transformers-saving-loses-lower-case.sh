#!/usr/bin/env bash
# Expected: a sentence-transformers model gives the same vectors after save and load.
# Happens: a folder whose sentence_bert_config.json has do_lower_case (versions 2 to 5 wrote it) is lower-cased when it
# is loaded. Saving drops that entry and writes the lower-casing step to tokenizer.json only, and transformers builds the
# normalizer of a BertTokenizer anew from tokenizer_config.json, where do_lower_case is false. The saved model reads
# upper-case letters again, without a warning, and gives other vectors.
# Version: sentence-transformers 6.2.0 with transformers 5.23.0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q sentence-transformers==6.2.0 transformers==5.23.0 torch==2.13.0
"$folder/venv/bin/python" - "$folder" <<'PY'
import json
import sys
from pathlib import Path

import sentence_transformers
import torch
import transformers
from sentence_transformers import SentenceTransformer

print("sentence-transformers", sentence_transformers.__version__, "transformers", transformers.__version__)
folder = Path(sys.argv[1]) / "old"
folder.mkdir()
letters = [letter for letter in "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"]
tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *("##" + letter for letter in letters)]
(folder / "vocab.txt").write_text("\n".join(tokens) + "\n")
transformers.BertTokenizer.from_pretrained(folder, do_lower_case=False).save_pretrained(folder)
torch.manual_seed(0)
config = transformers.BertConfig(
    vocab_size=len(tokens), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24
)
transformers.BertModel(config).save_pretrained(folder)
(folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 64, "do_lower_case": True}))
(folder / "1_Pooling").mkdir()
(folder / "1_Pooling/config.json").write_text(
    json.dumps({"word_embedding_dimension": 16, "pooling_mode_mean_tokens": True})
)
modules = [("", "Transformer"), ("1_Pooling", "Pooling")]
(folder / "modules.json").write_text(
    json.dumps(
        [
            {"idx": index, "name": str(index), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for index, (path, kind) in enumerate(modules)
        ]
    )
)
first = SentenceTransformer(str(folder), device="cpu")
first.save(str(folder / "saved"))
second = SentenceTransformer(str(folder / "saved"), device="cpu")
text = "Upper CASE"
shown = [model.tokenizer.tokenize(text) for model in (first, second)]
difference = float(abs(first.encode([text]) - second.encode([text])).max())
print(f"tokens of {text!r} before saving: {shown[0]}\nafter saving: {shown[1]}\nvectors differ by {difference:.3f}")
if shown[0] == shown[1] or difference < 1e-4:
    sys.exit("The behavior changed: saving keeps the lower-casing.")
PY
