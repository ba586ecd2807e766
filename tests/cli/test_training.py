"""The training commands and their plan from outside: exit codes, standard output, signals."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import chdir
from pathlib import Path

import pytest

from maskwright.cli.settings import spread
from train.runs import corpus, finetuning, labeled
from train.test_multi_task import scored

TINY = [
    "--preset", "bert-tiny", "--steps", "4", "--batch-tokens", "256", "--max-length", "32", "--vocab-size", "80",
    "--precision", "fp32",
]  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, run_once) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    corpus(folder)
    labeled(folder / "train.tsv", 40, 1)
    labeled(folder / "dev.tsv", 20, 2)
    with chdir(folder):
        run_once("pretrain", *TINY, "-o", "a", "corpus.txt", "--quiet")
    return folder


@pytest.fixture
def trained(runs: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
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


def test_the_example_is_a_table_with_its_assumptions(maskwright):
    code, out, _ = maskwright("plan", "--preset", "bert-base", "--tokens", "3.3e9", "--gpu", "h100", "--gpus", "8")
    assert code == 0
    assert "109,482,240" in out and "NVIDIA H100" in out and "minutes" in out
    assert (
        "assumption" in out
        and "unknown without --price-per-hour" in out
        and "maskwright pretrain --output runs/a --preset bert-base --vocab-size 30522 " in out
    )


def test_the_next_command_is_the_planned_run(maskwright):
    words = ("--objective", "rtd", "--mask-rate", "0.2", "--set", "positions=rotary", "--gpu", "h100")
    code, out, _ = maskwright("plan", "--preset", "bert-small", "--vocab-size", "8000", *words)
    line = out.splitlines()[-1]
    assert code == 0 and all(part in line for part in ("rtd", "--mask-rate 0.2", "--set positions=rotary"))
    code, out, _ = maskwright(*line.split()[2:], "--print-config", "--json")
    assert code == 0 and json.loads(out)["objective"] == "rtd" and json.loads(out)["vocab_size"] == 8000


def test_the_plan_of_a_translation_names_its_command(maskwright):
    arguments = ("--preset", "transformer-mini", "--objective", "translation", "--gpu", "a100", "--gpus", "8")
    code, out, _ = maskwright("plan", *arguments, "--tokens", "1e9", "--set", "hidden_dropout=0.2")
    wanted = "finetune translation --train train.tsv --output runs/a --preset transformer-mini --tokenizer tok"
    assert code == 0 and f"next:   maskwright {wanted} --set hidden_dropout=0.2 --accumulation 8" in out
