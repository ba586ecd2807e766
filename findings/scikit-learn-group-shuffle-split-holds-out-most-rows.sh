#!/usr/bin/env bash
# Expected: GroupShuffleSplit(test_size=0.1) holds out about a tenth of the rows, in whole groups.
# Found: test_size is a share of the groups, whatever their sizes. Of 1,000 rows, 900 of which are one group, some seeds
# hold out 910 and train on 90.
# Version: scikit-learn 1.9.1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q scikit-learn==1.9.1
"$folder/venv/bin/python" - <<'PYTHON'
import sys

import numpy as np
import sklearn
from sklearn.model_selection import GroupShuffleSplit

groups = np.array([0] * 900 + list(range(1, 101)))
splitter = GroupShuffleSplit(n_splits=40, test_size=0.1, random_state=0)
sizes = sorted({len(test) for _, test in splitter.split(np.zeros(1000), groups=groups)})
print("scikit-learn", sklearn.__version__)
print("test rows of 1,000 in 40 splits with test_size=0.1:", sizes)
if 910 not in sizes:
    sys.exit("The behavior changed: the share is one of rows.")
PYTHON
