"""`maskwright distill` on the command line: its output, rejected input, and options of its examples."""

import json
from pathlib import Path

import pytest

from maskwright.train.pretraining.pretrain import pretrain
from train.runs import TINY, corpus, pretraining


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("teacher")
    return pretrain(pretraining(folder, model=TINY | {"num_hidden_layers": 2}, steps=2, objective="mlm")).model


def words(teacher: Path, folder: Path, *more: str | Path) -> list[str | Path]:
    fixed = ["distill", "--teacher", teacher, "-o", folder / "run", "--precision", "fp32", "--quiet"]
    return [*fixed, "--steps", "2", "--batch-tokens", "256", "--max-length", "32", *more]


def test_a_run_prints_json_alone_and_is_not_run_twice(teacher: Path, tmp_path: Path, maskwright):
    given = words(teacher, tmp_path, corpus(tmp_path))
    code, first, _ = maskwright(*given, "--json")
    found = json.loads(first)
    assert code == 0 and set(found) == {"run", "model", "report", "metric", "score_kept", "baseline", "rows"}
    assert Path(found["model"], "model.safetensors").is_file() and Path(found["report"]).is_file()
    assert [row["layers"] for row in found["rows"][:2]] == [2, 1]
    assert json.loads(maskwright(*given, "--json")[1]) == found
    shown = maskwright(*given)[1]
    assert "finished" in shown and "student" in shown


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ([], "Pass either CORPUS"),
        (["--temperature", "0", "c.txt"], "temperature"),
        (["--layers", "9", "CORPUS"], "9 layers"),
        (["--preset", "bert-nimi", "CORPUS"], "bert-mini"),
    ],
)
def test_what_cannot_be_done_exits_with_2_and_a_sentence(more, message, teacher: Path, tmp_path: Path, refused):
    refused(message, *words(teacher, tmp_path, *(corpus(tmp_path) if word == "CORPUS" else word for word in more)))
    assert not (tmp_path / "run").exists()
