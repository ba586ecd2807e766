"""A task of another package: registered by an entry point, it has every part of the product without a change to it."""

from __future__ import annotations

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

from train.runs import TINY, corpus

PACKAGE = Path(__file__).parent / "foreign" / "counting"
# Runs commands; with STOP_AT a signal arrives at that step of training.
DRIVER = """
import os, signal, sys
from maskwright.cli import main
from maskwright.train.finetuning.job import FinetuneJob
make = FinetuneJob.micro_batches
def micro_batches(self, step):
    if str(step) == os.environ.get("STOP_AT"):
        signal.raise_signal(signal.SIGINT)
    return make(self, step)
FinetuneJob.micro_batches = micro_batches
for command in sys.argv[1:]:
    sys.argv = ["maskwright", *command.split()]
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise
"""


def rows(path: Path, count: int, seed: int) -> Path:
    """Texts of "cat" and "the"; the label is the number of cats."""
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
def run(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """A training that is interrupted and resumed, and what the commands say of its model."""
    from maskwright.text.tokenizers.tokenizer import Tokenizer

    folder = tmp_path_factory.mktemp("foreign")
    site = folder / "site"
    shutil.copytree(PACKAGE, site / "counting")
    about = site / "counting-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: counting\nVersion: 1.0\n", encoding="utf-8")
    (about / "entry_points.txt").write_text("[maskwright.task]\ncount = counting.task:Counting\n", encoding="utf-8")
    Tokenizer.train([corpus(folder)], kind="wordpiece", vocab_size=80).save(folder / "tok")
    train, dev = rows(folder / "train.tsv", 160, 1), rows(folder / "dev.tsv", 40, 2)

    def call(*commands: str, **extra: str) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH", "")]))
        return subprocess.run(
            [sys.executable, "-c", DRIVER, *commands],
            check=False,
            capture_output=True,
            text=True,
            timeout=300,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": path, **extra},
        )

    network = " ".join(f"--set {name}={value}" for name, value in TINY.items())
    command = (
        f"finetune count --preset bert-tiny {network} --tokenizer tok --train train.tsv --dev dev.tsv --tolerance 1 "
        "--batch-size 16 --max-length 16 --precision fp32 --device cpu -o run"
    )
    stopped = call(command, STOP_AT="13")
    rest = call(
        f"{command} --json",
        "evaluate run/model dev.tsv --json",
        "predict run/model --input dev.tsv --json",
        "finetune --help",
        "finetune count --help",
    )
    return SimpleNamespace(folder=folder, train=train, dev=dev, stopped=stopped, rest=rest, call=call, command=command)


def test_it_trains_is_interrupted_and_resumes(run: SimpleNamespace):
    assert run.stopped.returncode == 130, run.stopped.stderr
    assert run.rest.returncode == 0, run.rest.stderr
    assert "Resuming from step" in run.rest.stderr
    result = json.loads(run.rest.stdout.splitlines()[0])
    assert result["baseline"]["predictor"] == "always the median count"
    assert set(result["metrics"]) == {"loss", "within_tolerance"}
    recipe = (run.folder / "run" / "config.toml").read_text(encoding="utf-8")
    assert "tolerance = 1" in recipe and "epochs = 4" in recipe


def test_it_evaluates_and_predicts(run: SimpleNamespace):
    trained, evaluated, *answers = (json.loads(line) for line in run.rest.stdout.splitlines() if line.startswith("{"))
    assert (evaluated["task"], evaluated["examples"]) == ("count", 40)
    assert evaluated["metrics"] == pytest.approx({"within_tolerance": trained["final"]["within_tolerance"]})
    assert len(answers) == 40 and all(isinstance(one["score"], int) for one in answers)


def test_its_predictions_and_its_models_are_described_in_its_words(run: SimpleNamespace):
    shown = run.call("predict run/model cat")
    assert shown.returncode == 0 and re.search(r"cat +\d+ cats", shown.stdout), shown.stdout + shown.stderr
    wrong = run.call("fill-mask run/model a")
    assert wrong.returncode == 2
    assert "run/model contains a counting model" in wrong.stderr and "maskwright predict or evaluate" in wrong.stderr


def test_its_report_has_its_blocks(run: SimpleNamespace):
    page = (run.folder / "run" / "report.html").read_text(encoding="utf-8")
    assert "Counts in the training rows" in page and "always the median count" in page
    assert "--tolerance 1" in page and "maskwright finetune count" in page


def test_its_settings_are_in_the_help(run: SimpleNamespace):
    everything, own = run.rest.stdout.split("Usage:")[1:]
    assert "--tolerance" in everything and "--crf" in everything
    assert "--tolerance" in own and "--crf" not in own and "default: 4" in own


def test_its_settings_are_checked(run: SimpleNamespace):
    wrong = run.call(run.command.replace("--tolerance 1", "--tolerance -1"))
    assert wrong.returncode == 2 and "--tolerance is -1; it must be 0 or more." in wrong.stderr
    other = run.call(run.command.replace("finetune count", "finetune regression"))
    assert other.returncode == 2 and "--tolerance is for count, not regression." in other.stderr
    file = run.folder / "q.jsonl"
    file.write_text('{"context": "a", "choices": ["b", "c"], "label": 0}\n', encoding="utf-8")
    choices = run.call(run.command.replace("train.tsv", "q.jsonl").replace("-o run", "-o other"))
    assert choices.returncode == 2 and "contains multiple-choice rows, which count does not read" in choices.stderr
