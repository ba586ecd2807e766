"""A task of another package: registered by an entry point, it has every part of the product without a change to it."""

import json
import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from maskwright.core import registry
from maskwright.core.errors import ConfigError, RowErrors
from maskwright.tasks.classification import Classification
from train.runs import TINY, corpus

PACKAGE = Path(__file__).parent / "foreign" / "counting"
# Runs commands, and prints the exit code after the output of each.
DRIVER = """
import sys
from maskwright.cli import main
for command in sys.argv[1:]:
    sys.argv, code = ["maskwright", *command.split()], 0
    try:
        main()
    except SystemExit as end:
        code = end.code or 0
    for stream in (sys.stdout, sys.stderr):
        print(f"@{code}@", file=stream, flush=True)
"""


def rows(path, count, seed):
    rng = random.Random(seed)
    lines = ["text\tlabel"]
    for _ in range(count):
        cats = rng.randint(0, 4)
        words = ["cat"] * cats + ["the"] * (6 - cats)
        rng.shuffle(words)
        lines.append(f"{' '.join(words)}\t{cats}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """What the commands say of a training and its model: code, stdout and stderr of each."""
    from maskwright.text.tokenizers.tokenizer import Tokenizer

    folder = tmp_path_factory.mktemp("foreign")
    site = folder / "site"
    shutil.copytree(PACKAGE, site / "counting")
    about = site / "counting-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: counting\nVersion: 1.0\n", encoding="utf-8")
    (about / "entry_points.txt").write_text("[maskwright.task]\ncount = counting.task:Counting\n", encoding="utf-8")
    Tokenizer.train([corpus(folder)], kind="wordpiece", vocab_size=80).save(folder / "tok")
    rows(folder / "train.tsv", 160, 1)
    rows(folder / "dev.tsv", 40, 2)

    network = " ".join(f"--set {name}={value}" for name, value in TINY.items())
    command = (
        f"finetune count --preset bert-tiny {network} --tokenizer tok --train train.tsv --dev dev.tsv --tolerance 1 "
        "--batch-size 16 --max-length 16 --precision fp32 --device cpu -o run"
    )
    (folder / "q.jsonl").write_text('{"context": "a", "choices": ["b", "c"], "label": 0}\n', encoding="utf-8")
    commands = {
        "trained": f"{command} --json",
        "evaluated": "evaluate run/model dev.tsv --json",
        "answers": "predict run/model --input dev.tsv --json",
        "help": "finetune --help",
        "own_help": "finetune count --help",
        "shown": "predict run/model cat",
        "other_model": "fill-mask run/model a",
        "wrong_value": command.replace("--tolerance 1", "--tolerance -1"),
        "other_task": command.replace("finetune count", "finetune regression"),
        "other_file": command.replace("train.tsv", "q.jsonl").replace("-o run", "-o other"),
    }
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, *commands.values()],
        check=True,
        capture_output=True,
        text=True,
        timeout=300,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH", "")]))},
    )
    out, err = (re.split(r"@(\d+)@\n", text) for text in (done.stdout, done.stderr))
    found = {
        name: SimpleNamespace(code=int(code), out=one, err=other)
        for name, one, code, other in zip(commands, out[::2], out[1::2], err[::2], strict=False)
    }
    return SimpleNamespace(folder=folder, **found)


@pytest.mark.slow
def test_it_trains_evaluates_and_predicts(run):
    assert run.trained.code == 0, run.trained.err
    trained, evaluated = json.loads(run.trained.out), json.loads(run.evaluated.out)
    assert trained["baseline"]["predictor"] == "always the median count"
    assert set(trained["metrics"]) == {"loss", "within_tolerance"}
    recipe = (run.folder / "run" / "config.toml").read_text(encoding="utf-8")
    assert "tolerance = 1" in recipe and "epochs = 4" in recipe
    assert (evaluated["task"], evaluated["examples"]) == ("count", 40)
    assert evaluated["metrics"] == pytest.approx({"within_tolerance": trained["final"]["within_tolerance"]})
    answers = [json.loads(line) for line in run.answers.out.splitlines()]
    assert len(answers) == 40 and all(isinstance(one["score"], int) for one in answers)


@pytest.mark.slow
def test_its_predictions_its_models_and_its_report_are_in_its_words(run):
    assert run.shown.code == 0 and re.search(r"cat +\d+ cats", run.shown.out), run.shown.out + run.shown.err
    assert run.other_model.code == 2 and "run/model contains a counting model" in run.other_model.err
    page = (run.folder / "run" / "report.html").read_text(encoding="utf-8")
    for words in (
        "Counts in the training rows",
        "always the median count",
        "--tolerance 1",
        "maskwright finetune count",
    ):
        assert words in page


@pytest.mark.slow
def test_its_settings_are_in_the_help_and_checked(run):
    assert "--tolerance" in run.help.out and "--crf" in run.help.out
    assert "--tolerance" in run.own_help.out and "--crf" not in run.own_help.out and "default: 4" in run.own_help.out
    for name, words in {
        "wrong_value": "--tolerance is -1; it must be 0 or more.",
        "other_task": "--tolerance is for count, not regression.",
        "other_file": "contains multiple-choice rows, which count does not read",
    }.items():
        found = getattr(run, name)
        assert found.code == 2 and words in found.err


# -- A metric and a reader that another package registers are used like those of this one ----------------------------


@pytest.fixture
def file(monkeypatch, tmp_path):
    monkeypatch.setitem(registry.TABLE["reader"], "colons", "tasks.own_parts:READER")
    path = tmp_path / "train.colons"
    path.write_text("spam:: win a prize\nham:: see you at noon\nspam:: a free gift\n", encoding="utf-8")
    return path


def test_a_registered_layout_is_read_for_classification(file):
    rows = Classification.read(file).rows
    assert [(row.text, row.label) for row in rows[:2]] == [("win a prize", "spam"), ("see you at noon", "ham")]
    task = Classification.from_rows(rows)
    assert task.labels == ["ham", "spam"] and task.read_known(file).rows == rows
    file.write_text(file.read_text(encoding="utf-8") + "ham\n", encoding="utf-8")
    with pytest.raises(RowErrors, match="train.colons:4: has no ::"):
        Classification.read(file)
    assert len(Classification.read(file, skip_bad_rows=True)) == 3


def test_a_registered_metric_of_classes_can_choose_the_epoch(monkeypatch):
    task = Classification(["a", "b", "c"])
    with pytest.raises(ConfigError, match="balanced_accuracy"):
        task.choose_by("balanced_accuracy")
    monkeypatch.setitem(registry.TABLE["metric"], "balanced_accuracy", "tasks.own_parts:balanced_accuracy")
    gold, logits = torch.tensor([0, 0, 0, 1]), torch.eye(3)[[0, 0, 1, 1]]
    assert "balanced_accuracy" not in task.metrics(logits, gold)
    task.choose_by("balanced_accuracy")
    assert task.metrics(logits, gold)["balanced_accuracy"] == pytest.approx((2 / 3 + 1) / 2)
