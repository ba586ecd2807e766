"""`--precision int8` of predict, embed and evaluate: calibrated, its loss told, refused where texts are missing."""

from __future__ import annotations

import json

import numpy as np
import pytest

from inference.samples import TEXTS, tiny
from maskwright.inference.engine import operators
from maskwright.tasks.classification import Classification

pytestmark = pytest.mark.skipif(operators.missing_int8() is not None, reason=str(operators.missing_int8()))
MANY = [f"{text} {word}" for text in TEXTS if text for word in ("cats", "dogs", "rain", "mats")]
LABELS = ["Billing", "Hardware"]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("int8")
    tiny("classification", labels=LABELS).save(folder / "tickets", facts=Classification(LABELS).to_json())
    tiny("pretraining").save(folder / "pretrained")
    (folder / "texts.txt").write_text("\n".join(MANY) + "\n", encoding="utf-8")
    rows = [f"{text}\t{LABELS[number % 2]}" for number, text in enumerate(MANY[:12])]
    (folder / "rows.tsv").write_text("\n".join(["text\tlabel", *rows]) + "\n", encoding="utf-8")
    return folder


def test_predict_calibrates_on_the_first_texts_of_its_input(maskwright, root):
    arguments = ("predict", root / "tickets", "--input", root / "texts.txt", "--device", "cpu", "--json")
    code, out, err = maskwright(*arguments, "--precision", "int8")
    exact = maskwright(*arguments, "--precision", "fp32")[1]
    assert code == 0 and "calibrated on" in err
    pairs = [[json.loads(line)["probabilities"]["Billing"] for line in text.splitlines()] for text in (out, exact)]
    assert len(pairs[0]) == len(MANY)
    np.testing.assert_allclose(*pairs, atol=0.15)


def test_embed_writes_vectors_near_those_of_float32(maskwright, root, tmp_path):
    found = []
    for precision in ("int8", "fp32"):
        path = tmp_path / f"{precision}.npy"
        arguments = ("--input", root / "texts.txt", "--output", path, "--normalize", "--device", "cpu")
        assert maskwright("embed", root / "pretrained", *arguments, "--precision", precision)[0] == 0
        found.append(np.load(path))
    assert (found[0] * found[1]).sum(axis=1).mean() > 0.97


def test_evaluate_gives_the_scores_of_float32_beside_its_own(maskwright, root):
    arguments = ("evaluate", root / "tickets", root / "rows.tsv", "--device", "cpu", "--json")
    code, out, _ = maskwright(*arguments, "--precision", "int8", "--calibrate-on", root / "texts.txt")
    result, exact = json.loads(out), json.loads(maskwright(*arguments, "--precision", "fp32")[1])
    assert code == 0
    assert result["int8"]["fp32_metrics"] == pytest.approx(exact["metrics"])
    assert set(result["metrics"]) == set(exact["metrics"])
    assert result["int8"]["calibrated_on"] == 27 and 0.9 < result["int8"]["min_cosine"] <= 1


@pytest.mark.parametrize(
    "arguments, word",
    [
        (("evaluate", "tickets", "rows.tsv", "--precision", "int8"), "--calibrate-on"),
        (("predict", "tickets", "one text", "--precision", "int8"), "--calibrate-on"),
        (("predict", "tickets", "one text", "--calibrate-on", "texts.txt"), "--precision int8"),
    ],
)
def test_missing_texts_are_requested(maskwright, root, arguments, word):
    paths = [root / one if (root / one).exists() else one for one in arguments]
    code, _, err = maskwright(*paths)
    assert code == 2 and word in err
