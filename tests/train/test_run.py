"""A failed run leaves no files, unless it has trained weights, which are never removed."""

from __future__ import annotations

from pathlib import Path

import pytest

from maskwright.core import storage
from maskwright.core.errors import InputError
from maskwright.train.run import FINISHED, RunFolder, open_run


def test_refused_input_leaves_no_folder(tmp_path: Path):
    with pytest.raises(InputError), open_run(tmp_path / "run", {"epochs": 1}) as run:
        storage.write_text(run.path / "tokenizer/vocab.txt", "a\n")
        raise InputError("a bad row")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("part", [".", "seed-0", "finetuned/lstm/seed-1"])
def test_trained_weights_stay_when_something_fails_afterwards(tmp_path: Path, part: str):
    with pytest.raises(ValueError), open_run(tmp_path / "run", {"epochs": 1}) as run:
        (run.path / part).mkdir(parents=True, exist_ok=True)
        RunFolder(run.path / part, {}).log({"step": 1})
        raise ValueError("in the report")
    assert RunFolder(tmp_path / "run" / part, {}).records()[0]["step"] == 1
    with open_run(tmp_path / "run", {"epochs": 1}) as run:  # the same command resumes
        assert run.result is None


@pytest.mark.parametrize("name", FINISHED)
def test_finished_parts_of_ladders_and_labs_stay(tmp_path: Path, name: str):
    with pytest.raises(InputError), open_run(tmp_path / "run", {"epochs": 1}) as run:
        storage.write_json(run.path / name / "words.json", {"score": 0.5})
        raise InputError("another part cannot be made")
    assert storage.read_json(tmp_path / "run" / name / "words.json") == {"score": 0.5}
