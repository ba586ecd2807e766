"""The training commands from outside: exit codes, standard output, signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import chdir
from pathlib import Path

import pytest

from train.runs import corpus, labeled

TINY = [
    "--preset", "bert-tiny", "--steps", "4", "--batch-tokens", "256", "--max-length", "32", "--vocab-size", "80",
    "--precision", "fp32",
]  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, run_once) -> Path:
    """A folder with a pre-trained run `a` and labeled rows."""
    folder = tmp_path_factory.mktemp("trained")
    corpus(folder)
    labeled(folder / "train.tsv", 40, 1)
    labeled(folder / "dev.tsv", 20, 2)
    with chdir(folder):
        run_once("pretrain", *TINY, "-o", "a", "corpus.txt", "--quiet")
    return folder


@pytest.fixture
def trained(runs: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same, as the current folder."""
    monkeypatch.chdir(runs)
    return runs


def test_the_network_can_be_set_key_by_key(trained: Path, maskwright):
    (trained / "net.toml").write_text('[model]\nhidden_size = 64\npositions = "none"\n')
    words = ["--set", "positions=relative_key_value", "--set", "gated=true", "--config", "net.toml", "--print-config"]
    code, out, _ = maskwright("pretrain", *TINY, *words, "-o", "n", "corpus.txt", "--json")
    assert code == 0
    assert json.loads(out)["model"] == {"hidden_size": 64, "positions": "relative_key_value", "gated": True}


def test_a_finished_run_says_so_and_gives_its_result(trained: Path, maskwright):
    code, out, _ = maskwright("pretrain", *TINY, "-o", "a", "corpus.txt")
    assert code == 0 and "This run is finished" in out and "maskwright fill-mask" in out
    found = json.loads(maskwright("pretrain", *TINY, "-o", "a", "corpus.txt", "--json")[1])
    assert found["metrics"].keys() >= {"mlm_accuracy", "nsp_accuracy"} and Path(found["report"]).is_file()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([*TINY, "--set", "position=none", "-o", "x", "corpus.txt"], "Did you mean 'positions'"),
        ([*TINY, "--set", "positions=far", "-o", "x", "corpus.txt"], "rotary"),
        ([*TINY, "--set", "x", "-o", "x", "corpus.txt"], "name=value"),
        ([*TINY, "--lr", "0.01", "-o", "a", "corpus.txt"], "lr (was 0.0005, now 0.01)"),
        (["--max-length", "4", "-o", "x", "corpus.txt"], "at least 8"),
    ],
)
def test_bad_usage_of_pretrain_is_one_sentence_and_exit_two(trained: Path, refused, words: list[str], message: str):
    refused(message, "pretrain", *words)
    assert not (trained / "x").exists(), "a rejected command left a folder"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--model", "m", "--preset", "bert-tiny"], "either --model"),
        (["classification", "--model", "nothing"], "nothing"),
        (["classification", "--model", "."], "config.json"),
        (["--columns", "text"], "ROLE=NAME"),
    ],
)
def test_bad_usage_of_finetune_is_one_sentence_and_exit_two(trained: Path, refused, words: list[str], message: str):
    refused(message, "finetune", *words, "--train", "train.tsv", "-o", "x")
    assert not (trained / "x").exists(), "a rejected command left a folder"


def test_a_dry_run_says_what_would_be_done_and_writes_nothing(trained: Path, maskwright):
    found = json.loads(maskwright("pretrain", *TINY, "-o", "z", "corpus.txt", "--dry-run", "--json")[1])
    assert found["parameters"] > 100_000 and found["tokens_at_most"] == 4 * 8 * 32
    assert not (trained / "z").exists()


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_a_signal_saves_exits_130_and_the_same_command_goes_on(trained: Path, number: signal.Signals):
    words = [*TINY, "--steps", "4000", "--set", "log_every=1", "-o", f"stopped-{number}", "corpus.txt"]
    command = [sys.executable, "-m", "maskwright", "pretrain", *words]
    with subprocess.Popen(command, cwd=trained, stderr=subprocess.PIPE, text=True) as process:
        log = trained / f"stopped-{number}" / "metrics.jsonl"
        ends = time.monotonic() + 120
        while time.monotonic() < ends and not (log.exists() and log.read_text().count("\n") >= 2):
            time.sleep(0.05)
        process.send_signal(number)
        assert process.wait(60) == 130
        assert "Rerun the same command to resume" in process.stderr.read()  # type: ignore[union-attr]
    (checkpoint,) = (trained / f"stopped-{number}" / "checkpoints").glob("step-*")
    assert 0 < int(checkpoint.name.removeprefix("step-")) < 4000
