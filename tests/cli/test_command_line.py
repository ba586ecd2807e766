"""What all commands share: earlier names, errors, JSON for any content, and several processes."""

import io
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import typer

from maskwright.cli import app as command_line
from maskwright.cli.app import COMMANDS, RETIRED, renamed, whole_app
from maskwright.cli.common import print_json
from maskwright.core.config import command_line as command_line_of
from maskwright.core.config import to_dict
from maskwright.train import distributed as command
from maskwright.train.finetuning.config import FinetuneConfig


@pytest.mark.parametrize("old", [old for old, new in RETIRED.items() if isinstance(new, str)])
def test_an_earlier_name_runs_the_command_and_names_the_new_one_once(old, maskwright):
    new = RETIRED[old]
    code, out, err = maskwright(*old.split(), "--help")
    expected = maskwright(*new.split(), "--help")
    assert (code, out) == expected[:2] and code == 0 and "Usage" in out
    assert err == f"warning: 'maskwright {old}' is deprecated. Use 'maskwright {new}'.\n"
    assert expected[2] == ""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("ensemble a b dev.tsv --json", "evaluate a dev.tsv --ensemble b --json"),
        ("ensemble runs/b dev.tsv", "evaluate runs/b dev.tsv --ensemble runs/b"),
        ("ensemble a b x.txt --no-score -o o.tsv", "predict a --input x.txt --ensemble b -o o.tsv"),
        ("next-sentence m a b c --json", "predict m a a --pair=b --pair=c --json"),
        ("next-sentence m --input pairs.tsv", "predict m --input pairs.tsv"),
        ("bench complexity --lengths 8,16 --width 4 --json", "lessons complexity --set width=4 --set length=16 --json"),
        ("complexity", "lessons complexity"),
        ("presets --models --json", "pretrain --model list --json"),
        ("embed m a", "embed m a"),
    ],
)
def test_an_earlier_command_line_is_one_of_the_new_command(old, new):
    assert renamed(old.split()) == new.split()


def test_earlier_names_are_not_in_the_help(maskwright):
    _, out, _ = maskwright("--help")
    shown = re.findall(r"^│ ([a-z][a-z-]*) ", out, flags=re.MULTILINE)
    assert shown == [name for commands in COMMANDS.values() for name in commands]
    assert not set(shown) & set(RETIRED)
    assert re.findall(r"^╭─ (\w+) ", out, flags=re.MULTILINE) == ["Options", *COMMANDS]


def test_the_line_of_a_command_is_the_first_of_its_own_help():
    own = {
        name: command.help.split("\n\n")[0] for name, command in typer.main.get_command(whole_app()).commands.items()
    }
    listed = {name: about for commands in COMMANDS.values() for name, (_, about) in commands.items()}
    assert {name: " ".join(text.split()) for name, text in own.items()} == listed


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
        ("pretrain text.txt -o x --preset bert-tinny", "--preset: Unknown preset 'bert-tinny'. Did you mean"),
        ("plan --preset bert-bse", "--preset: Unknown preset 'bert-bse'. Did you mean 'bert-base'?"),
        ("pretrain text.txt -o x --objective mln", "--objective: Unknown objective 'mln'. Did you mean 'mlm'?"),
        ("finetune taging --model m --train rows.tsv -o x", "TASK: Unknown task 'taging'. Did you mean 'tagging'?"),
        ("experiment ladder --data rows.tsv -o x --only brt", "--only: Unknown model of the comparison 'brt'. Did you"),
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


WORST = {
    "combining": "e\u0301 Z\u0351\u036b",
    "right to left": "\u202eשלום مرحبا",
    "joined": "👩\u200d👩\u200d👧\u200d👦",
    "separators": "a\u2028b\u2029c\x85d\x0be\x0cf\r\ng",
    "controls": "\x00\x1b[31m\x7f",
    "nothing": "\ufeff\ufffd\uffff\U0010ffff",
    "quotes": '"\\/\b\t',
    "half of a pair": "a\ud800b",
}


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "cp1252"])
def test_any_text_comes_back_from_one_line(encoding: str, monkeypatch: pytest.MonkeyPatch):
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding=encoding, newline="\n"))
    print_json(WORST)
    sys.stdout.flush()
    lines = raw.getvalue().decode(encoding).split("\n")
    assert len(lines) == 2 and json.loads(lines[0]) == WORST


def refuse(name: str) -> None:
    """JSON has no such number."""
    raise AssertionError(name)


def test_what_is_no_number_in_json_is_null(capsys: pytest.CaptureFixture[str]):
    print_json({"confirmed": float("nan"), "table": np.array([1.0, np.inf]), "text": "é NaN"})
    found = json.loads(capsys.readouterr().out, parse_constant=refuse)
    assert found == {"confirmed": None, "table": [1.0, None], "text": "é NaN"}


@pytest.fixture
def cluster(monkeypatch):
    """The variables of the second of two processes."""
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")


def test_other_commands_ignore_the_variables_of_a_cluster_job(cluster, maskwright):
    code, out, _ = maskwright("bench", "--help")
    assert code == 0 and "bench" in out


def test_torchrun_with_a_command_of_one_process_is_rejected(cluster, monkeypatch, maskwright):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    monkeypatch.setattr(command, "run_member", lambda launch, run, *, debug: run())
    code, _, err = maskwright("plan")
    assert code == 2 and err == "error: maskwright plan runs in one process: start it without torchrun.\n"


@pytest.mark.parametrize("name", command_line.SHARED)
def test_training_commands_join_the_other_processes(cluster, monkeypatch, maskwright, name):
    joined = []
    monkeypatch.setattr(command, "run_member", lambda launch, run, *, debug: joined.append(launch.rank))
    maskwright(name, "--help")
    assert joined == [1]


def test_torchrun_with_a_single_process_is_rejected(monkeypatch, refused, tmp_path):
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "TORCHELASTIC_RUN_ID": "none"}.items():
        monkeypatch.setenv(name, value)
    refused("pass --nproc-per-node N", "pretrain", "-o", tmp_path / "run", tmp_path / "corpus.txt")
    assert not (tmp_path / "run").exists()


def test_a_suggested_command_does_not_depend_on_the_number_of_processes(cluster):
    suggested = command_line_of(FinetuneConfig, {"train": "train.tsv", "output": "runs/a"})
    assert "--train train.tsv" in suggested and "--accumulation" not in suggested
    ran = command_line_of(FinetuneConfig, to_dict(FinetuneConfig(train=Path("train.tsv"), output=Path("runs/a"))))
    assert "--accumulation 2" in ran
