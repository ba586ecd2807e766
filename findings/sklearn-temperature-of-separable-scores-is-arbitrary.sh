#!/usr/bin/env bash
# Expected: where every calibration row is classified right, no temperature is the best; a warning says so, or a limit
# keeps probabilities usable. The same scores times ten get a tenth of the factor, so the same probabilities.
# Happens: the bounded search of CalibratedClassifierCV(method="temperature") stops somewhere, without a warning: the
# factor is 2,820, 502 or 46 for the same scores times 0.1, 1 and 10, where any number up to e ** 10 would do, and
# probabilities are exactly 1: a single later mistake makes the log loss infinite.
# Version: scikit-learn 1.9.1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q scikit-learn==1.9.1
"$folder/venv/bin/python" - <<'PY'
import sys
import warnings

import numpy as np
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator

print("scikit-learn", sklearn.__version__)
warnings.simplefilter("error")


class Scores(ClassifierMixin, BaseEstimator):
    """Its features are its scores."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X):
        return X

    def predict(self, X):
        return self.classes_[X.argmax(axis=1)]


draw = np.random.default_rng(0)
gold = np.r_[np.arange(3), draw.integers(0, 3, 27)]
scores = draw.normal(size=(30, 3))
for row, label in enumerate(gold):  # the largest score is that of the label
    best = scores[row].argmax()
    scores[row, [best, label]] = scores[row, [label, best]]
factors = []
for scale in (0.1, 1.0, 10.0):
    X = scores * scale
    fitted = CalibratedClassifierCV(FrozenEstimator(Scores().fit(X, gold)), method="temperature").fit(X, gold)
    factors.append(float(np.ravel(fitted.calibrated_classifiers_[0].calibrators[0].beta_)[0]))
    shares = fitted.predict_proba(X)
    ones = int((shares == 1).sum())
    print(f"scores times {scale:g}: factor {factors[-1]:.0f}, {ones} of 30 probabilities are exactly 1")
proportional = [factors[0], factors[0] / 10, factors[0] / 100]
if np.allclose(factors, proportional, rtol=0.2) or ones < 20:
    sys.exit("The behavior changed: the factor is limited, or in proportion to the scores.")
PY
