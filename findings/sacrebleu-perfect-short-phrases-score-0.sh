#!/usr/bin/env bash
# Expected: a corpus of perfect translations has BLEU 100, or an error says that BLEU is not defined for short texts.
# Happens: 50 perfect pairs of two words have BLEU 0.0 without a warning; one more perfect pair of four words makes the
# same corpus 100. With effective_order, which is meant for sentences, both are 100.
# Version: sacrebleu 2.6.0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q sacrebleu==2.6.0
"$folder/venv/bin/python" - <<'PY'
import sys

import sacrebleu
from sacrebleu.metrics import BLEU

print("sacrebleu", sacrebleu.__version__)
short = ["guten Morgen"] * 50
longer = [*short, "das ist ein Haus"]
found = [BLEU(effective_order=order).corpus_score(texts, [texts]).score for order in (False, True) for texts in (short, longer)]
print("50 perfect pairs of two words:", found[0], "- and one of four words:", found[1], "- effective order:", found[2:])
if found[0] != 0 or min(found[1:]) < 99.9:
    sys.exit("The behavior changed: a corpus of short perfect texts is not 0 any more.")
PY
