"""`--score-range`: messages about scores outside the range, in training and in evaluation."""

import json

import pytest

from inference.samples import TEXTS, tiny

QUICK = ("--epochs", "1", "--max-length", "24", "--device", "cpu", "--precision", "fp32")


@pytest.fixture
def rows(tmp_path):
    tiny("pretraining").save(tmp_path / "encoder")
    good = [f"{text or 'a'}\t{number % 6}" for number, text in enumerate(TEXTS)]
    (tmp_path / "good.tsv").write_text("\n".join(["text\tscore", *good, ""]), encoding="utf-8")
    bad = [*good[:3], "the cat\t6", *good[3:], "rain fell\t-1"]
    (tmp_path / "bad.tsv").write_text("\n".join(["text\tscore", *bad, ""]), encoding="utf-8")
    return tmp_path


def test_scores_out_of_range_stop_training_and_evaluation_and_are_skipped_on_request(maskwright, refused, rows):
    bad, good, last = rows / "bad.tsv", rows / "good.tsv", len(TEXTS) + 3
    words = ("finetune", "regression", "--model", rows / "encoder", *QUICK, "--score-range", "0", "5", "-o", rows / "r")
    for files in ((bad, good), (good, bad)):
        code, _, err = maskwright(*words, "--train", files[0], "--dev", files[1])
        told = " ".join(err.split())
        assert code == 2 and "2 bad rows" in told
        assert f"{bad}:5: column 'score': 6 is not between 0 and 5" in told
        assert f"{bad}:{last}: column 'score': -1 is not between 0 and 5" in told
    code, _, err = maskwright(*words, "--train", bad, "--dev", good, "--skip-bad-rows")
    assert code == 0 and "2 bad rows are skipped" in err
    assert json.loads((rows / "r" / "model" / "maskwright.json").read_text())["score_range"] == [0.0, 5.0]
    assert "--score-range 0.0</span> 5.0" in (rows / "r" / "report.html").read_text()

    refused(f"{bad}:5: column 'score': 6 is not between 0 and 5", "evaluate", rows / "r" / "model", bad)
    code, out, err = maskwright("evaluate", rows / "r" / "model", bad, "--skip-bad-rows", "--json")
    assert code == 0 and (json.loads(out)["examples"], json.loads(out)["skipped"]) == (len(TEXTS), 2)


@pytest.mark.parametrize(
    ("task", "options", "said"),
    [
        ("regression", ("--score-range", "5", "0"), "--score-range is 5 0"),
        ("classification", ("--score-range", "0", "5"), "is for regression"),
    ],
)
def test_a_range_that_means_nothing_is_refused(refused, tmp_path, task, options, said):
    refused(said, "finetune", task, "--model", "m", "--train", "t.tsv", *options, "-o", tmp_path / "run")
