#!/usr/bin/env bash
# Expected: the same probabilities have the same log loss, whether an array holds them as float16, float32 or float64.
# Happens: probabilities are clipped by the precision of their type, so one certain mistake of two rows costs 3.5 in
# float16, 8.0 in float32 and 18.0 in float64: models that answer in different types cannot be compared.
# Version: scikit-learn 1.9.1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q scikit-learn==1.9.1
"$folder/venv/bin/python" - <<'PY'
import sys

import numpy as np
import sklearn
from sklearn.metrics import log_loss

print("scikit-learn", sklearn.__version__)
certain = [[1.0, 0.0], [1.0, 0.0]]
found = [float(log_loss([0, 1], np.array(certain, dtype=kind))) for kind in ("float16", "float32", "float64")]
print("log loss in float16, float32, float64:", [round(one, 2) for one in found])
if not found[0] < 5 < found[1] < 10 < found[2]:
    sys.exit("The behavior changed: the type of the probabilities does not matter.")
PY
