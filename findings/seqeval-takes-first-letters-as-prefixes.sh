#!/usr/bin/env bash
# What a good engineer expects: seqeval 1.2.2 reads tags that are types alone (PER PER O ORG) as entities of these types,
# and lower-case tags (b-per) as B-PER, or refuses them.
# What happens: the first letter is the prefix. ORG begins with O, so all organizations are outside, and PER is the type
# "ER": a model that finds no organization scores 1.0. A lower-case b- does not begin an entity, so one entity of two
# words scores 1.0 where the gold data have two.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q seqeval==1.2.2 scikit-learn==1.9.1
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version
from seqeval.metrics import f1_score
from seqeval.metrics.sequence_labeling import get_entities

gold, predicted = ["PER", "PER", "O", "ORG"], ["PER", "PER", "O", "O"]
score = float(f1_score([gold], [predicted]))
print("seqeval", version("seqeval"), gold, "->", get_entities(gold), "F1 without the organization", score)
lower, one = ["b-per", "b-per", "o"], ["b-per", "i-per", "o"]
lower_score = float(f1_score([lower], [one]))
print(lower, "->", get_entities(lower), "F1 of one entity", lower_score)
if get_entities(gold) != [("ER", 0, 1)] or (score, lower_score) != (1.0, 1.0):
    raise SystemExit("seqeval no longer takes the first letter of any tag as its prefix.")
PYTHON
