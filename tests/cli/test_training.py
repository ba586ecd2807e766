"""The training commands from outside: exit codes, standard output, signals."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from maskwright.cli import main
from train.runs import corpus, labeled

TINY = [
    "--preset", "bert-tiny", "--steps", "4", "--batch-tokens", "256", "--max-length", "32", "--vocab-size", "80",
    "--precision", "fp32",
]  # fmt: skip


def maskwright(*words: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the command in a folder, in this process: a new one would take seconds to import torch."""
    out, err = io.StringIO(), io.StringIO()
    argv = ["maskwright", *map(str, words)]
    with chdir(cwd), redirect_stdout(out), redirect_stderr(err), pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", argv)
        try:
            main()
            code = 0
        except SystemExit as finished:
            code = finished.code or 0
    return subprocess.CompletedProcess(argv, code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a pre-trained run `a` and labeled rows."""
    folder = tmp_path_factory.mktemp("trained")
    corpus(folder)
    labeled(folder / "train.tsv", 40, 1)
    labeled(folder / "dev.tsv", 20, 2)
    done = maskwright("pretrain", *TINY, "-o", "a", "corpus.txt", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    (folder / "pretrained.json").write_text(done.stdout)
    return folder


def test_json_is_all_there_is_on_standard_output(trained: Path):
    found = json.loads((trained / "pretrained.json").read_text())
    assert found["metrics"].keys() >= {"mlm_accuracy", "nsp_accuracy"}
    assert Path(found["report"]).is_file()


def test_the_network_can_be_set_key_by_key(trained: Path):
    (trained / "net.toml").write_text('[model]\nhidden_size = 64\npositions = "none"\n')
    words = ["--set", "positions=relative_key_value", "--set", "gated=true", "--config", "net.toml", "--print-config"]
    done = maskwright("pretrain", *TINY, *words, "-o", "n", "corpus.txt", "--json", cwd=trained)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["model"]
    assert found == {"hidden_size": 64, "positions": "relative_key_value", "gated": True}
    for wrong, said in (
        ("position=none", "Did you mean 'positions'"),
        ("positions=far", "rotary"),
        ("x", "name=value"),
    ):
        done = maskwright("pretrain", *TINY, "--set", wrong, "-o", "n", "corpus.txt", cwd=trained)
        assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr
    assert not (trained / "n").exists()


def test_a_finished_run_says_so_and_exits_zero(trained: Path):
    done = maskwright("pretrain", *TINY, "-o", "a", "corpus.txt", cwd=trained)
    assert done.returncode == 0
    assert "This run is finished" in done.stdout
    assert "maskwright fill-mask" in done.stdout


def test_other_settings_exit_two_and_name_the_difference(trained: Path):
    done = maskwright("pretrain", *TINY, "--lr", "0.01", "-o", "a", "corpus.txt", cwd=trained)
    assert done.returncode == 2
    assert "lr (was 0.0005, now 0.01)" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["pretrain", "-o", "x", "missing.txt"], "missing.txt does not exist"),
        (["pretrain", "corpus.txt"], "Missing: -o/--output (run folder)."),
        (["pretrain", "--preset", "bert-minni", "-o", "x", "corpus.txt"], "bert-mini"),
        (["pretrain", "--objective", "mln", "-o", "x", "corpus.txt"], "Did you mean 'mlm'"),
        (["pretrain", "--max-length", "4", "-o", "x", "corpus.txt"], "at least 8"),
        (["finetune", "clasification", "--model", "m", "--train", "train.tsv", "-o", "x"], "Did you mean"),
        (["finetune", "--model", "m", "--preset", "bert-tiny", "--train", "train.tsv", "-o", "x"], "either --model"),
        (["finetune", "classification", "--model", "nothing", "--train", "train.tsv", "-o", "x"], "nothing"),
        (["finetune", "classification", "--model", ".", "--train", "train.tsv", "-o", "x"], "config.json"),
        (["finetune", "--columns", "text", "--train", "train.tsv", "-o", "x"], "ROLE=NAME"),
    ],
)  # fmt: skip
def test_bad_usage_is_one_sentence_and_exit_two(trained: Path, words: list[str], message: str):
    done = maskwright(*words, cwd=trained)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not (trained / "x").exists(), "a rejected command left a folder"


def test_a_dry_run_says_what_would_be_done_and_writes_nothing(trained: Path):
    done = maskwright("pretrain", *TINY, "-o", "z", "corpus.txt", "--dry-run", "--json", cwd=trained)
    found = json.loads(done.stdout)
    assert found["parameters"] > 100_000
    assert found["tokens_at_most"] == 4 * 8 * 32
    assert not (trained / "z").exists()


def test_presets_give_the_published_parameter_counts(trained: Path):
    rows = {
        row["preset"]: row
        for row in json.loads(maskwright("pretrain", "--preset", "list", "--json", cwd=trained).stdout)
    }
    assert rows["bert-base"]["parameters"] == 109_482_240
    assert rows["bert-large"]["parameters"] == 335_141_888


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
