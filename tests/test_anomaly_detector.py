"""AnomalyDetector: scikit-learn's conventions for outlier detectors."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone, is_outlier_detector
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import check_get_params_invariance, check_no_attributes_set_in_init

import maskwright as mw
from inference.samples import tiny
from maskwright.core.errors import ConfigError, InputError, ModelFolderError

NORMAL = [
    f"the {who} sat on the {where} ." for who in ("cat", "dogs", "a", "she") for where in ("mat", "store", "garden")
]
STRANGE = ["milk ! ! milk gallon penguins", "flightless unbelievably ends", "rain rain rain rain rain rain rain"]
QUICK = {"epochs": 40, "lr": 1e-2, "batch_size": 4, "max_length": 16, "precision": "fp32", "device": "cpu"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "encoder"
    tiny().save(path)
    return str(path)


@pytest.fixture(scope="module")
def detector(folder):
    return mw.AnomalyDetector(folder, contamination=0.1, **QUICK).fit(NORMAL)


def test_parameters_are_stored_as_given_and_can_be_cloned(folder):
    found = mw.AnomalyDetector(folder, contamination=0.2)
    check_get_params_invariance("AnomalyDetector", found)
    check_no_attributes_set_in_init("AnomalyDetector", found)
    assert clone(found).get_params() == found.get_params() and found.get_params()["contamination"] == 0.2
    assert is_outlier_detector(found)


def test_scores_decisions_and_predictions_agree(detector):
    texts = NORMAL + STRANGE
    scores, decided = detector.score_samples(texts), detector.decision_function(texts)
    assert np.allclose(decided, scores - detector.offset_)
    assert (detector.predict(texts) == np.where(decided < 0, -1, 1)).all()
    assert (scores <= 0).all()


def test_strange_texts_are_outliers_and_few_of_its_own_are(detector):
    assert (detector.predict(STRANGE) == -1).all()
    assert (detector.predict(NORMAL) == -1).mean() == pytest.approx(0.1, abs=1 / len(NORMAL))
    assert detector.score_samples(NORMAL).mean() > detector.score_samples(STRANGE).mean()


def test_a_folder_brings_the_same_decisions_back(detector, tmp_path):
    detector.save(tmp_path / "model")
    loaded = mw.AnomalyDetector.load(tmp_path / "model")
    assert np.allclose(loaded.decision_function(STRANGE), detector.decision_function(STRANGE))
    assert loaded.contamination == 0.1 and loaded.offset_ == detector.offset_
    answers = mw.TextClassifier  # a folder of another kind is rejected
    with pytest.raises(ModelFolderError, match="an anomaly detector"):
        answers.load(tmp_path / "model")


def test_the_seed_decides(folder, detector):
    again = clone(detector).fit(NORMAL)
    other = clone(detector).set_params(random_state=5).fit(NORMAL)
    assert np.array_equal(again.score_samples(STRANGE), detector.score_samples(STRANGE))
    assert not np.allclose(other.score_samples(STRANGE), detector.score_samples(STRANGE))


def test_fit_predict_is_there_and_y_is_not_used(folder):
    found = mw.AnomalyDetector(folder, **{**QUICK, "epochs": 1})
    assert set(found.fit_predict(NORMAL)) <= {-1, 1}


def test_what_cannot_be_fitted_is_refused(folder):
    with pytest.raises(NotFittedError):
        mw.AnomalyDetector(folder).predict(NORMAL)
    with pytest.raises(InputError, match="empty"):
        mw.AnomalyDetector(folder, **QUICK).fit([])
    for wrong in (0.0, 0.9, "auto"):
        with pytest.raises(ConfigError, match="contamination"):
            mw.AnomalyDetector(folder, **{**QUICK, "contamination": wrong}).fit(NORMAL)


def test_long_texts_are_read_to_their_end_in_windows(folder, tmp_path):
    filler = " ".join(NORMAL[:6])
    hidden = [f"{filler} {STRANGE[0]} {filler}"]
    options = {**QUICK, "long": "windows", "pool": "max", "stride": 2, "contamination": 0.1}
    found = mw.AnomalyDetector(folder, **options).fit([*NORMAL, filler])
    assert found.predict(hidden)[0] == -1
    found.save(tmp_path / "model")
    loaded = mw.AnomalyDetector.load(tmp_path / "model")
    assert loaded.get_params() | {"model": 0} == found.get_params() | {"model": 0}
    assert np.array_equal(loaded.decision_function(hidden), found.decision_function(hidden))
    assert mw.AnomalyDetector.load(tmp_path / "model", pool="mean").score_samples(hidden) > found.score_samples(hidden)
