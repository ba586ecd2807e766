"""`ensemble` on the command line: models, runs of several seeds, files of answers."""

import json

import pytest

from cli.test_use import lines_of
from maskwright.text.readers.tables import read_table
from maskwright.train.finetuning.finetune import finetune
from train.runs import finetuning


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("seeds")
    finetune(finetuning(root, seeds=3, epochs=1, lr=5e-4))
    return root


def seeds_of(folder):
    return folder / "tuned", folder / "dev.tsv", "--ensemble", folder / "tuned"


def test_a_run_of_several_seeds_is_an_ensemble_of_them(as_json, folder, tmp_path):
    out_file = tmp_path / "answers.jsonl"
    found = as_json("evaluate", *seeds_of(folder), "--output", out_file)
    assert found["examples"] == 24 and found["task"] == "classification"
    seeds = json.loads((folder / "tuned" / "result.json").read_text())["seeds"]
    assert [one["metrics"]["accuracy"] for one in found["members"]] == [seed["accuracy"] for seed in seeds]
    assert found["mean"]["accuracy"] == pytest.approx(sum(seed["accuracy"] for seed in seeds) / 3)
    assert len(lines_of(out_file.read_text())) == 24 and found["output"] == str(out_file)


def test_a_table_for_people(maskwright, folder):
    code, out, _ = maskwright("ensemble", folder / "tuned" / "model", folder / "dev.tsv")
    assert code == 0 and "ensemble" in out and "1 models as one: accuracy +0.0000" in out
    code, out, _ = maskwright("evaluate", *seeds_of(folder))
    assert code == 0 and [f"seed-{seed} " in out for seed in range(3)] == [True] * 3


def test_rows_without_gold_answers_can_be_answered(maskwright, folder, tmp_path):
    texts = tmp_path / "texts.txt"
    texts.write_text("the red cat was here\nthe old river was here\n")
    code, out, _ = maskwright(
        "predict", folder / "tuned", "--ensemble", folder / "tuned", "--input", texts, "--output", tmp_path / "a.tsv"
    )
    assert (code, out) == (0, "")
    assert [row.text for row in read_table(tmp_path / "a.tsv", columns={"label": "label"}).rows] == [
        "the red cat was here",
        "the old river was here",
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("absent/model",), "does not exist"),
        (("tok",), "config.json"),
        (("unfinished",), "is not a finished fine-tuning run"),
    ],
)
def test_models_that_cannot_be_combined_are_rejected(refused, folder, words, message):
    (folder / "unfinished").mkdir(exist_ok=True)
    (folder / "unfinished" / "config.toml").write_text("")
    refused(message, "evaluate", folder / words[0], folder / "dev.tsv", "--ensemble", folder / words[0])
