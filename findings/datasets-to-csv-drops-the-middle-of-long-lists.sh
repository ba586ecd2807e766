#!/usr/bin/env bash
# Expected: to_csv writes every token of a tagged document, or refuses a list.
# Found: a list is written as numpy prints it, and numpy abbreviates more than 1,000 items: of 1,200 tokens six are in the
# file, with "..." between them, without a warning.
# Version: datasets 5.2.0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q datasets==5.2.0
HF_HOME="$folder/home" HF_HUB_OFFLINE=1 "$folder/venv/bin/python" - "$folder" <<'PYTHON'
import sys
from pathlib import Path

import datasets

datasets.disable_progress_bars()
path = Path(sys.argv[1]) / "documents.csv"
tokens = [f"w{number}" for number in range(1200)]
datasets.Dataset.from_dict({"tokens": [tokens, ["a", "b"]]}).to_csv(str(path))
written = path.read_text()
kept = [token for token in tokens if f"'{token}'" in written]
print("datasets", datasets.__version__)
print(written)
print(f"{len(kept)} of {len(tokens)} tokens are in the file")
if len(kept) == len(tokens):
    sys.exit("The behavior changed: all tokens are written.")
PYTHON
