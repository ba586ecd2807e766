"""Several tasks on the command line: many files after one flag, one folder for each, a recipe that says the same."""

from __future__ import annotations

import json

import pytest

from maskwright.cli.settings import spread
from train.runs import finetuning
from train.test_multi_task import scored

OPTIONS, TASKS = ("--multi-task", "--dev"), ("classification", "regression")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("finetune --multi-task a b -o x", "finetune --multi-task a --multi-task b -o x"),
        ("finetune --multi-task a --multi-task b", "finetune --multi-task a --multi-task b"),
        ("finetune --dev a b c --multi-task d e", "finetune --dev a --dev b --dev c --multi-task d --multi-task e"),
        ("finetune --multi-task a b classification", "finetune --multi-task a --multi-task b classification"),
        ("finetune --dev classification x", "finetune --dev classification --dev x"),
        ("finetune classification --train a --epochs 2", "finetune classification --train a --epochs 2"),
        ("finetune --multi-task -o x y", "finetune --multi-task -o x y"),
    ],
)
def test_values_after_one_flag_are_those_of_a_repeated_one(given, expected):
    assert list(spread(given.split(), OPTIONS, TASKS)) == expected.split()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("several")
    finetuning(folder)
    scored(folder / "scores.tsv", 40, 3)
    return folder


def command(files, *more):
    start = ["finetune", "classification", "--preset", "bert-tiny", "--tokenizer", files / "tok", "--max-length", 24]
    return [*start, "--epochs", 1, "--lr", "2e-3", "--precision", "fp32", *more]


def test_one_command_trains_all_and_each_folder_is_used_as_any_other(files, maskwright, refused, tmp_path):
    tasks = ["--multi-task", files / "train.tsv", f"regression:{files / 'scores.tsv'}"]
    words = command(files, *tasks, "--dev", files / "dev.tsv", files / "scores.tsv", "-o", tmp_path / "x")
    code, out, err = maskwright(*words, "--json")
    result = json.loads(out)
    assert code == 0 and set(result["tasks"]) == {"train", "scores"} and "Traceback" not in err
    assert result["tasks"]["scores"]["main_metric"] == "pearson"
    for name, file in (("train", "dev.tsv"), ("scores", "scores.tsv")):
        model = result["tasks"][name]["model"]
        code, out, _ = maskwright("evaluate", model, files / file, "--json", "--precision", "fp32")
        metrics = result["tasks"][name]["metrics"]
        assert code == 0
        assert json.loads(out)["metrics"] == pytest.approx({k: v for k, v in metrics.items() if k != "loss"}, abs=1e-5)
        code, out, _ = maskwright("predict", model, "the red cat was here", "--json")
        assert code == 0 and "score" in json.loads(out)
    code, out, _ = maskwright(*words)
    assert code == 0 and "finished" in out and "scores:" in out and "models:" in out
    refused("epochs", *words, "--epochs", 2)
