"""`--precision int8` of predict, embed and evaluate: calibrated, its loss told, refused where texts are missing."""

import json

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


def test_evaluate_gives_the_scores_of_float32_beside_its_own(maskwright, root):
    arguments = ("evaluate", root / "tickets", root / "rows.tsv", "--device", "cpu", "--json")
    code, out, _ = maskwright(*arguments, "--precision", "int8", "--calibrate-on", root / "texts.txt")
    result, exact = json.loads(out), json.loads(maskwright(*arguments, "--precision", "fp32")[1])
    assert code == 0 and result["int8"]["fp32_metrics"] == pytest.approx(exact["metrics"])
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
def test_missing_texts_are_requested(refused, root, arguments, word):
    paths = [root / one if (root / one).exists() else one for one in arguments]
    refused(word, *paths)
