#!/usr/bin/env bash
# Expected: test() of a file counts each line; a gold label that the model does not know is a mistake.
# Found: labels that did not occur in training are dropped while reading, and lines that have no other are not counted:
# precision and recall are 1.0 on a file of which two lines of three can only be wrong. The count that it returns is 1.
# Version: fasttext-numpy2 0.10.4 (fastText 0.9.3).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q fasttext-numpy2==0.10.4 numpy==2.4.6
"$folder/venv/bin/python" - "$folder" <<'PYTHON'
import sys
from importlib.metadata import version
from pathlib import Path

import fasttext

folder = Path(sys.argv[1])
lines = [f"__label__a cats sleep {n}\n__label__b dogs bark {n}\n" for n in range(50)]
(folder / "train.txt").write_text("".join(lines))
(folder / "test.txt").write_text("__label__a cats sleep\n__label__other cats sleep\n__label__other dogs bark\n")
model = fasttext.train_supervised(str(folder / "train.txt"), epoch=50, lr=1.0, thread=1, minCount=1, verbose=0)
count, precision, recall = model.test(str(folder / "test.txt"))
print("fasttext-numpy2", version("fasttext-numpy2"))
print(f"three lines: count {count}, precision at 1 {precision}, recall at 1 {recall}")
if (count, precision, recall) != (1, 1.0, 1.0):
    sys.exit("The behavior changed: lines with unknown labels are counted.")
PYTHON
