"""Calibration, abstention and comparison from the command line, and what a fine-tuning run keeps of them."""

import json
import random

import pytest

from cli.test_use import labeled, lines_of
from inference.samples import tiny
from maskwright.core import storage
from maskwright.tasks.classification import Classification
from maskwright.tasks.tagging.task import Tagging

WORDS = ["cat", "dogs", "mat", "garden", "rain", "milk", "store", "birds", "gallon", "penguins"]


def rows(count, seed):
    draw = random.Random(seed)
    texts = [" ".join(draw.choices(WORDS, k=4)) for _ in range(count)]
    return [(text, "yes" if ("cat" in text) != (draw.random() < 0.2) else "no") for text in texts]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("trust")
    task = Classification(["no", "yes"])
    for name, seed in (("a", 1), ("b", 2)):
        tiny("classification", seed=seed, labels=task.labels).save(root / name, facts=task.to_json())
    tags = Tagging(["NOUN", "VERB"])
    tiny("tagging", labels=tags.labels).save(root / "tags", facts=tags.to_json())
    tiny("regression", labels=1, problem_type="regression").save(root / "score", facts={"task": "regression"})
    labeled(root / "dev.tsv", rows(80, 3))
    labeled(root / "test.tsv", rows(40, 4))
    (root / "dev.conll").write_text("cat\tNOUN\nsat\tVERB\n\n" * 3 + "rain\tNOUN\nfell\tVERB\n\n")
    return root


def test_calibrate_changes_probabilities_and_no_answer(as_json, maskwright, folder, tmp_path):
    result = as_json("evaluate", folder / "a", folder / "dev.tsv", "--calibrate", "-o", tmp_path / "c")
    assert result["model"] == str(tmp_path / "c") and result["decisions"] == 80
    _, before, _ = maskwright("predict", folder / "a", "--input", folder / "test.tsv", "--json")
    _, after, _ = maskwright("predict", tmp_path / "c", "--input", folder / "test.tsv", "--json")
    pairs = list(zip(lines_of(before), lines_of(after), strict=True))
    assert all(one["label"] == other["label"] for one, other in pairs)
    assert any(one["score"] != pytest.approx(other["score"]) for one, other in pairs)
    facts = json.loads((tmp_path / "c" / "maskwright.json").read_text())
    assert facts["temperature"]["value"] == result["temperature"] and "temperature" not in json.loads(
        (folder / "a" / "maskwright.json").read_text()
    )
    storage.verify_folder(tmp_path / "c")
    # Rows that fitted it are scored by the other half: evaluate reports the same as calibrate.
    _, out, _ = maskwright("evaluate", tmp_path / "c", folder / "dev.tsv", "--json")
    assert lines_of(out)[0]["metrics"]["ece"] == pytest.approx(result["after"]["ece"])


def test_taggers_are_calibrated_by_word_and_numbers_are_not(maskwright, refused, folder, tmp_path):
    code, out, _ = maskwright(
        "evaluate", folder / "tags", folder / "dev.conll", "--calibrate", "-o", tmp_path / "t", "--json"
    )
    assert code == 0 and lines_of(out)[0]["decisions"] == 8
    numbers = labeled(tmp_path / "n.tsv", [("cat", "1"), ("mat", "2")], "text\tscore")
    refused("no class probabilities", "evaluate", folder / "score", numbers, "--calibrate", "-o", tmp_path / "n")
    assert not (tmp_path / "n").exists()


def test_predict_abstains_says_so_and_counts(maskwright, folder, tmp_path):
    _, out, _ = maskwright("predict", folder / "a", "--input", folder / "test.tsv", "--json")
    scores = sorted(answer["score"] for answer in lines_of(out))
    limit = (scores[9] + scores[10]) / 2
    code, out, err = maskwright(
        "predict", folder / "a", "--input", folder / "test.tsv", "--min-confidence", limit, "--json"
    )
    answers = lines_of(out)
    assert code == 0 and sum(answer["abstained"] for answer in answers) == 10
    assert all((answer["label"] is None) == answer["abstained"] == (answer["score"] < limit) for answer in answers)
    assert "10 texts have no label" in err
    _, shown, _ = maskwright("predict", folder / "a", "cat", "--min-confidence", "1")
    assert "(abstained)" in shown
    output = tmp_path / "answers.tsv"
    maskwright("predict", folder / "a", "cat", "--min-confidence", "1", "-o", output)
    assert output.read_text().splitlines()[1].split("\t")[1] == ""


def test_the_confidence_for_a_risk_gives_that_risk(maskwright, folder):
    _, out, _ = maskwright("evaluate", folder / "a", folder / "dev.tsv", "--risk", "0.5", "--json")
    found = lines_of(out)[0]["abstention"]
    _, out, _ = maskwright(
        "predict", folder / "a", "--input", folder / "dev.tsv", "--min-confidence", found["min_confidence"], "--json"
    )
    kept = [answer for answer in lines_of(out) if not answer["abstained"]]
    assert len(kept) / 80 == pytest.approx(found["coverage"])
    assert sum(answer["label"] != answer["gold"] for answer in kept) / len(kept) <= 0.5


def test_two_models_are_compared_and_a_page_shows_it(maskwright, folder, tmp_path):
    page = tmp_path / "page.html"
    words = ("evaluate", folder / "a", folder / "dev.tsv", "--against", folder / "b")
    code, out, _ = maskwright(*words, "--report", page, "--json")
    found = lines_of(out)[0]["against"]
    _, alone, _ = maskwright("evaluate", folder / "b", folder / "dev.tsv", "--json")
    assert code == 0 and found["metrics"] == lines_of(alone)[0]["metrics"]
    assert found["comparison"]["metric"] == "accuracy" and found["comparison"]["mcnemar"]["p_value"] <= 1
    html = page.read_text()
    assert all(part in html for part in ("Accuracy by confidence", "Selective prediction", "Comparison with"))
    code, shown, _ = maskwright(*words)
    assert code == 0 and "difference" in shown and found["comparison"]["sentence"] in shown


def test_a_run_calibrates_on_its_dev_rows(maskwright, refused, folder, tmp_path):
    tiny().save(tmp_path / "base")
    labeled(tmp_path / "train.tsv", rows(60, 5))
    words = ["finetune", "classification", "--model", tmp_path / "base", "--train", tmp_path / "train.tsv"]
    words += ["--dev", folder / "dev.tsv", "--epochs", "1", "--max-length", "16", "--calibrate", "-o", tmp_path / "run"]
    code, out, _ = maskwright(*words, "--json")
    found = lines_of(out)[0]["calibration"]
    facts = json.loads((tmp_path / "run/model/maskwright.json").read_text())
    assert code == 0 and facts["temperature"]["value"] == found["temperature"]
    assert len(facts["temperature"]["fitted_on"]) > 40
    assert "temperature" in (tmp_path / "run/report.html").read_text()
    code, out, _ = maskwright(*words)
    assert code == 0 and "calibration error" in out
    refused("classification and tagging", "finetune", "regression", *words[2:])
