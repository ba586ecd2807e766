#!/usr/bin/env bash
# What a good engineer expects: seqeval 1.2.2 scores entities; a word whose tag is "-" (no annotation, as in spaCy and
# CoNLL) is outside, or is refused.
# What happens: "-" begins an entity of the type "_". Two equal entities beside a word without annotation give an F1 of
# 0.67, because the mark of the missing tag counts as an entity that was not found.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q seqeval==1.2.2 scikit-learn==1.9.1
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version
from seqeval.metrics import f1_score
from seqeval.metrics.sequence_labeling import get_entities

gold, predicted = ["-", "B-PER", "I-PER", "O"], ["O", "B-PER", "I-PER", "O"]
found, score = get_entities(gold), float(f1_score([gold], [predicted]))
print("seqeval", version("seqeval"), gold, "->", found, "F1", round(score, 3))
if found != [("_", 0, 0), ("PER", 1, 2)] or round(score, 3) != 0.667:
    raise SystemExit("seqeval no longer counts a missing tag as an entity.")
PYTHON
