"""`maskwright distill` on the command line: its output, rejected input, and options of its examples."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from maskwright.cli.app import main, whole_app
from maskwright.train.pretraining.pretrain import pretrain
from train.runs import TINY, corpus, pretraining

runner = CliRunner()


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("teacher")
    return pretrain(pretraining(folder, model=TINY | {"num_hidden_layers": 2}, steps=2, objective="mlm")).model


def words(teacher: Path, folder: Path, *more: str) -> list[str]:
    fixed = ["--teacher", str(teacher), "-o", str(folder / "run"), "--precision", "fp32", "--quiet"]
    sizes = ["--steps", "2", "--batch-tokens", "256", "--max-length", "32"]
    return ["distill", *fixed, *sizes, *more]


def test_a_run_prints_json_alone_and_is_not_run_twice(teacher: Path, tmp_path: Path):
    text = str(corpus(tmp_path))
    first = runner.invoke(whole_app(), words(teacher, tmp_path, "--json", text))
    assert first.exit_code == 0, first.output
    found = json.loads(first.stdout)
    assert set(found) == {"run", "model", "report", "metric", "score_kept", "baseline", "rows"}
    assert Path(found["model"], "model.safetensors").is_file() and Path(found["report"]).is_file()
    assert [row["layers"] for row in found["rows"][:2]] == [2, 1]
    assert json.loads(runner.invoke(whole_app(), words(teacher, tmp_path, "--json", text)).stdout) == found
    shown = runner.invoke(whole_app(), words(teacher, tmp_path, text))
    assert "finished" in shown.stdout and "student" in shown.stdout


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ([], "Pass either CORPUS"),
        (["--temperature", "0", "c.txt"], "temperature"),
        (["--layers", "9", "CORPUS"], "9 layers"),
        (["--preset", "bert-nimi", "CORPUS"], "bert-mini"),
    ],
)
def test_what_cannot_be_done_exits_with_2_and_a_sentence(
    more: list[str], message: str, teacher: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
):  # fmt: skip
    given = [str(corpus(tmp_path)) if word == "CORPUS" else word for word in more]
    monkeypatch.setattr("sys.argv", ["maskwright", *words(teacher, tmp_path, *given)])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
