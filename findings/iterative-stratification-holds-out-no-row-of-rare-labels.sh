#!/usr/bin/env bash
# Expected: MultilabelStratifiedShuffleSplit(test_size=0.1) holds out about 10 of 100 rows, whatever their labels.
# Found: if no label has five rows, it holds out none of them, without a warning: the test part is empty.
# Version: iterative-stratification 0.1.9 with scikit-learn 1.9.1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q iterative-stratification==0.1.9 scikit-learn==1.9.1
"$folder/venv/bin/python" - <<'PYTHON'
import sys
from importlib.metadata import version

import numpy as np
from iterstrat.ml_stratifiers import MultilabelStratifiedShuffleSplit

print("iterative-stratification", version("iterative-stratification"))
sizes = {}
for rows_per_label in (2, 4, 10):
    labels = np.repeat(np.eye(100 // rows_per_label, dtype=int), rows_per_label, axis=0)
    splitter = MultilabelStratifiedShuffleSplit(n_splits=8, test_size=0.1, random_state=0)
    sizes[rows_per_label] = [len(test) for _, test in splitter.split(np.zeros(len(labels)), labels)]
    print(f"{rows_per_label} rows per label: test rows of 8 splits of 100 rows: {sizes[rows_per_label]}")
if set(sizes[2]) != {0} or set(sizes[4]) != {0} or set(sizes[10]) != {10}:
    sys.exit("The behavior changed: rows of rare labels are held out.")
PYTHON
