#!/usr/bin/env bash
# Expected: in a JSON lines file whose labels are 1 and "01", the text "01" stays a text, or the mixture is refused.
# Found: the column becomes the type Json, and texts that look like numbers are decoded a second time: "01" and "1" are
# returned as the number 1, so codes lose their leading zeros and two classes become one.
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
path = Path(sys.argv[1]) / "rows.jsonl"
path.write_text('{"label": 1}\n{"label": "01"}\n{"label": "1"}\n')
found = datasets.load_dataset("json", data_files=str(path), split="train", cache_dir=sys.argv[1])
print("datasets", datasets.__version__, found.features["label"])
print('labels in the file: 1, "01", "1"; labels of the data set:', found["label"][:])
if found["label"][:] != [1, 1, 1]:
    sys.exit("The behavior changed: texts stay texts.")
PYTHON
