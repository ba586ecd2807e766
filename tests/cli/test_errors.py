"""Every error is one sentence with the option as typed and the closest valid one, and exit code 2."""

from __future__ import annotations

import json

import pytest

ROWS = "text\tlabel\n" + "".join(f"a good film {row}\tpos\na bad film {row}\tneg\n" for row in range(10))
SQUAD = {"data": [{"title": "t", "paragraphs": [{"context": "Anna lives in Rome", "qas": []}]}]}
TABLE = "which {} does not read: it reads"


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.tsv").write_text(ROWS)
    (tmp_path / "words.conll").write_text("Anna B-PER\nlives O\n\nBob B-PER\nsleeps O\n")
    (tmp_path / "words.tsv").write_text("text\tO\nNew York\tB-LOC\nlabel\tO\n\nBob\tB-PER\n")
    (tmp_path / "questions.json").write_text(json.dumps(SQUAD))
    (tmp_path / "choices.jsonl").write_text('{"context": "c", "choices": ["a", "b"], "label": 0}\n')
    (tmp_path / "text.txt").write_text("some text\n")
    (tmp_path / "bad.toml").write_text("lr = -1\n")
    return tmp_path


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("finteune", "Did you mean 'finetune'?"),
        ("finetune tagging --devcie cpu", "maskwright finetune has no option --devcie. Did you mean --device?"),
        ("finetune --task tagging", "has no option --task. TASK is an argument: type only its value."),
        ("finetune --schedule lineer", "--schedule: 'lineer' is not one of "),
        ("finetune --schedule lineer", "Did you mean linear?"),
        ("pretrain --steps", "--steps needs a value."),
        ("pretrain text.txt", "Missing: -o/--output (run folder)."),
        ("pretrain -o x", "Missing: CORPUS (text files)."),
        ("finetune qa", "Missing: --train (labeled rows to train on), -o/--output (run folder)."),
        ("evaluate", "Missing: MODEL"),
        (
            "pretrain text.txt -o x --preset bert-tinny",
            "--preset: Unknown preset 'bert-tinny'. Did you mean",
        ),
        ("plan --preset bert-bse", "--preset: Unknown preset 'bert-bse'. Did you mean 'bert-base'?"),
        ("pretrain text.txt -o x --objective mln", "--objective: Unknown objective 'mln'. Did you mean 'mlm'?"),
        ("finetune taging --model m --train rows.tsv -o x", "TASK: Unknown task 'taging'. Did you mean 'tagging'?"),
        (
            "experiment ladder --data rows.tsv -o x --only brt",
            "--only: Unknown model of the comparison 'brt'. Did you",
        ),
        ("vectors text.txt -o x --method skipgram", "--method: 'skipgram' is not one of "),
        ("finetune --model m --train rows.tsv -o x --config bad.toml", "'lr' in bad.toml is -1.0; it must be above 0."),
        ("finetune tagging --model m --train rows.tsv -o x --set focal=2", "focal is for classification, not tagging."),
        ("finetune qa --model m --train q.json -o x --long windows", "--long is not for qa, which always reads long"),
        ("experiment benchmark gleu", "Did you mean glue?"),
        ("doctor rows.tsv --task taging", "Did you mean 'tagging'?"),
        ("lessons attenton", "Did you mean '"),
        ("fill-mask m text --words ,", "--words is empty"),
    ],
)
def test_mistakes_are_named_as_typed(files, refused, line, said):
    refused(said, *line.split())
    assert not (files / "x").exists()


@pytest.mark.parametrize(
    ("task", "file", "suggested"),
    [
        ("tagging", "rows.tsv", "classification"),
        ("classification", "words.conll", "tagging"),
        ("classification", "questions.json", "qa"),
        ("regression", "choices.jsonl", "choice"),
        ("qa", "rows.tsv", "classification"),
    ],
)
def test_a_file_of_another_task_is_named(files, maskwright, task, file, suggested):
    code, _, err = maskwright("finetune", task, "--model", "m", "--train", file, "-o", "x")
    assert code == 2 and TABLE.format(task) in err and f"run maskwright finetune {suggested}." in err, err


def test_regression_on_classes_says_so_once(files, maskwright):
    code, _, err = maskwright("finetune", "regression", "--model", "m", "--train", "rows.tsv", "-o", "x")
    assert code == 2 and err.count("is not a number") == 1 and "--skip-bad-rows" not in err
    assert "run maskwright finetune classification" in err
