#!/usr/bin/env bash
# Expected: BertTokenizer(vocab_file="vocab.txt"), the argument of versions 1 to 4 that packages such as antiberty 0.1.3
# and iglm 0.1.0 use, has the vocabulary of the file, or fails.
# Happens: the argument, now called vocab, goes to **kwargs and is ignored. The tokenizer has the five special tokens,
# and every word becomes [UNK]. There is no error and no warning.
# Version: transformers 5.23.0 with tokenizers 0.23.3.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q transformers==5.23.0 tokenizers==0.23.3
"$folder/venv/bin/python" -W error - "$folder/vocab.txt" <<'PY'
import sys
from pathlib import Path

import transformers

print("transformers", transformers.__version__)
Path(sys.argv[1]).write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "film"]))
found = {}
for name in ("vocab", "vocab_file"):
    tokenizer = transformers.BertTokenizer(**{name: sys.argv[1]})
    found[name] = tokenizer.tokenize("good film")
    print(f"{name}: {len(tokenizer)} tokens, {found[name]}")
if found["vocab"] != ["good", "film"] or found["vocab_file"] != ["[UNK]", "[UNK]"]:
    sys.exit("The behavior changed: vocab_file is read.")
PY
