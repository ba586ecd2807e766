"""Every later version opens the folders of earlier ones, resumes their runs and gives their answers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import maskwright as mw
from releases.write import STOPPED, answers, pretraining

RELEASES = sorted(path.parent for path in Path(__file__).parent.glob("*/answers.json"))


@pytest.fixture(params=RELEASES, ids=lambda path: path.name)
def release(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the folder of a release, in which the test runs."""
    folder = tmp_path / "release"
    shutil.copytree(request.param, folder)
    monkeypatch.chdir(folder)
    return folder


def test_models_give_the_same_answers(release: Path):
    expected = json.loads((release / "answers.json").read_text(encoding="utf-8"))
    found = answers()
    for name in ("probabilities", "vectors"):
        np.testing.assert_allclose(found.pop(name), expected.pop(name), atol=1e-5, err_msg=name)
    assert found == expected


def test_an_adapter_opens_on_its_base(release: Path):
    adapted = mw.TextClassifier.load(release / "adapter" / "model")
    assert list(adapted.classes_) == ["bad", "good"]


def test_an_interrupted_run_resumes_to_the_weights_of_an_uninterrupted_one(release: Path):
    steps: list[int] = []

    class Record(mw.Callback):
        def on_step(self, facts: object) -> None:
            steps.append(facts.step)  # type: ignore[attr-defined]

    mw.pretrain(pretraining("interrupted"), callbacks=[Record()])
    assert steps == [STOPPED + 1, STOPPED + 2]
    weights = Path("model", "model.safetensors")
    found, expected = load_file(release / "interrupted" / weights), load_file(release / "pretraining" / weights)
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        np.testing.assert_allclose(found[name], tensor, atol=1e-5, err_msg=name)


def test_a_finished_run_is_finished(release: Path):
    result = mw.pretrain(pretraining("pretraining"))
    assert result.already_finished
    assert result.scores == json.loads((release / "pretraining" / "result.json").read_text())["scores"]
