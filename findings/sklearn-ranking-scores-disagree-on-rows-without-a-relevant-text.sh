#!/usr/bin/env bash
# Expected: a query without a relevant text has no ranking score: it is left out, or both scores count it alike.
# Happens: label_ranking_average_precision_score counts it as perfect (1.0), ndcg_score as worst (0.0), both without a
# warning. Half of such queries moves one score up to 1 and the other down to a half.
# Version: scikit-learn 1.9.1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q scikit-learn==1.9.1
"$folder/venv/bin/python" - <<'PY'
import sys
import warnings

import sklearn
from sklearn.metrics import label_ranking_average_precision_score, ndcg_score

print("scikit-learn", sklearn.__version__)
warnings.simplefilter("error")
relevant, scores = [[0, 1, 0], [0, 0, 0]], [[0.1, 0.9, 0.2], [0.3, 0.2, 0.1]]
found = {
    name: (float(score(relevant[:1], scores[:1])), float(score(relevant[1:], scores[1:])), float(score(relevant, scores)))
    for name, score in (("average precision", label_ranking_average_precision_score), ("nDCG", ndcg_score))
}
for name, (perfect, empty, both) in found.items():
    print(f"{name}: a perfect ranking {perfect}, nothing relevant {empty}, both {both}")
if (found["average precision"][1], found["nDCG"][1]) != (1.0, 0.0):
    sys.exit("The behavior changed: the scores agree on a query without a relevant text.")
PY
