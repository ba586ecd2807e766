#!/usr/bin/env bash
# Expected: class_encode_column of the integer labels 2, 9 and 10 keeps their order: 2 is class 0, 9 is 1, 10 is 2.
# Found: the numbers are sorted as text, so 10 is class 0, 2 is class 1 and 9 is class 2. Ratings from 1 to 10 get an
# order in which 10 comes after 1.
# Version: datasets 5.2.0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q datasets==5.2.0
HF_HOME="$folder/home" HF_HUB_OFFLINE=1 "$folder/venv/bin/python" - <<'PYTHON'
import sys

import datasets

datasets.disable_progress_bars()
found = datasets.Dataset.from_dict({"label": [2, 9, 10]}).class_encode_column("label")
print("datasets", datasets.__version__)
print("labels 2, 9, 10 become", found["label"][:], "with the names", found.features["label"].names)
if found["label"][:] != [1, 2, 0]:
    sys.exit("The behavior changed: the order of the numbers is kept.")
PYTHON
