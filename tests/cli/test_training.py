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


def test_rows_with_one_label_each_can_be_multi_label_all_the_same(trained: Path):
    words = ["finetune", "classification", "--model", "a/model", "--train", "train.tsv", "--epochs", "1"]
    done = maskwright(*words, "--max-length", "24", "--multi-label", "-o", "several", cwd=trained)
    assert done.returncode == 0, done.stderr
    facts = json.loads((trained / "several" / "model" / "maskwright.json").read_text())
    assert facts["multi_label"] is True


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


def test_events_can_be_had_of_a_finished_run(trained: Path):
    assert not list((trained / "a").glob("*tfevents*"))
    done = maskwright("pretrain", *TINY, "-o", "a", "corpus.txt", "--tensorboard", cwd=trained)
    assert done.returncode == 0, done.stderr
    assert len(list((trained / "a").glob("*tfevents*"))) == 1


def test_other_settings_exit_two_and_name_the_difference(trained: Path):
    done = maskwright("pretrain", *TINY, "--lr", "0.01", "-o", "a", "corpus.txt", cwd=trained)
    assert done.returncode == 2
    assert "lr (was 0.0005, now 0.01)" in done.stderr
    assert "Traceback" not in done.stderr


def test_fine_tuning_from_the_command_line(trained: Path):
    words = ["finetune", "classification", "--model", "a/model", "--train", "train.tsv", "--dev", "dev.tsv", "-o", "b"]
    done = maskwright(*words, "--epochs", "1", "--max-length", "24", "--json", cwd=trained)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert set(found["metrics"]) >= {"accuracy", "f1", "matthews"}
    scored = maskwright("evaluate", "b/model", "dev.tsv", "--json", cwd=trained)
    assert json.loads(scored.stdout)["metrics"]["accuracy"] == pytest.approx(found["metrics"]["accuracy"])


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


def test_the_recipe_of_a_file_with_flags_over_it(trained: Path):
    (trained / "recipe.toml").write_text(
        'corpus = ["corpus.txt"]\noutput = "y"\nsteps = 7\nseed = 3\nprecision = "fp32"\n'
    )
    words = ["--seed", "0", "--precision", "auto", "--print-config", "--json"]
    done = maskwright("pretrain", "--config", "recipe.toml", *words, cwd=trained)
    found = json.loads(done.stdout)
    assert (found["steps"], found["seed"], found["precision"]) == (7, 0, "auto")
    assert not (trained / "y").exists()


def test_a_dry_run_says_what_would_be_done_and_writes_nothing(trained: Path):
    done = maskwright("pretrain", *TINY, "-o", "z", "corpus.txt", "--dry-run", "--json", cwd=trained)
    found = json.loads(done.stdout)
    assert found["parameters"] > 100_000
    assert found["tokens_at_most"] == 4 * 8 * 32
    assert not (trained / "z").exists()


def test_presets_give_the_published_parameter_counts(trained: Path):
    rows = {row["preset"]: row for row in json.loads(maskwright("presets", "--json", cwd=trained).stdout)}
    assert rows["bert-base"]["parameters"] == 109_482_240
    assert rows["bert-large"]["parameters"] == 335_141_888


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_a_signal_saves_exits_130_and_the_same_command_goes_on(trained: Path, number: signal.Signals):
    words = [*TINY, "--steps", "4000", "-o", f"stopped-{number}", "corpus.txt"]
    command = [sys.executable, "-m", "maskwright", "pretrain", *words]
    with subprocess.Popen(command, cwd=trained, stderr=subprocess.PIPE, text=True) as process:
        log = trained / f"stopped-{number}" / "metrics.jsonl"
        ends = time.monotonic() + 120
        while time.monotonic() < ends and not (log.exists() and log.read_text().count("\n") >= 2):
            time.sleep(0.05)
        asked = time.monotonic()
        process.send_signal(number)
        assert process.wait(60) == 130
        assert time.monotonic() - asked < 10
        assert "Rerun the same command to resume" in process.stderr.read()  # type: ignore[union-attr]
    (checkpoint,) = (trained / f"stopped-{number}" / "checkpoints").glob("step-*")
    assert 0 < int(checkpoint.name.removeprefix("step-")) < 4000
