"""The model in the package: its files, its card, damage, and the commands that use it by default."""

import json
import shutil

import numpy as np
import pytest

import maskwright as mw
from maskwright.cli.settings import is_model
from maskwright.core.errors import CorruptFileError
from maskwright.hub import published

FOLDER = published.BUILT_IN / published.ENGLISH


@pytest.fixture
def copy(tmp_path, monkeypatch):
    shutil.copytree(published.BUILT_IN, tmp_path / "built_in")
    monkeypatch.setattr(published, "BUILT_IN", tmp_path / "built_in")
    published.built_in_folder.cache_clear()
    yield tmp_path / "built_in" / published.ENGLISH
    published.built_in_folder.cache_clear()


@pytest.mark.parametrize("damage", ["weights", "missing weights", "manifest", "tokenizer", "no folder"])
def test_damage_is_reported_with_what_to_do(copy, damage, refused):
    if damage == "no folder":
        shutil.rmtree(copy)
    elif damage == "missing weights":
        (copy / "model.safetensors").unlink()
    else:
        names = {"weights": "model.safetensors", "manifest": "manifest.json", "tokenizer": "tokenizer.json"}
        data = bytearray((copy / names[damage]).read_bytes())
        data[len(data) // 2] ^= 1
        (copy / names[damage]).write_bytes(data)
    with pytest.raises(CorruptFileError, match="Reinstall the package"):
        mw.load("english")
    refused("Reinstall the package", "embed", "a text")


def test_it_needs_no_home_folder_and_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "missing"))
    before = {path: path.stat().st_mtime_ns for path in FOLDER.rglob("*")}
    assert mw.load("english").tokenizer is not None
    assert {path: path.stat().st_mtime_ns for path in FOLDER.rglob("*")} == before


def test_commands_use_it_where_no_model_is_named(maskwright):
    text = "The printer prints blank pages."
    code, out, err = maskwright("embed", text, "--json")
    assert code == 0 and "Model: english" in err
    named = maskwright("embed", "english", text, "--json")
    assert named[1] == out and "Model: english" not in named[2]
    vector = mw.Embedder().transform([text])
    assert np.allclose(vector[0], json.loads(out)["vector"], atol=1e-4)


@pytest.mark.parametrize(
    ("word", "has_more", "takes_files", "expected"),
    [
        ("a text", False, False, False),
        ("word", False, False, False),
        ("bert-base-uncased", True, False, True),
        ("owner/name", False, False, True),
        ("minilm", False, False, True),
        ("runs/mistyped/model", False, False, True),
        ("runs/mistyped/model", True, True, True),
        ("yes/no or maybe", False, False, False),
        ("hub:owner/name@v1", False, False, True),
        ("english", False, True, True),
        ("50% off!", True, False, False),
        ("x\0y", True, False, False),
        ("long " * 2000, True, False, False),
    ],
)
def test_the_first_word_is_a_model_or_a_text(word, has_more, takes_files, expected):
    assert is_model(word, has_more, takes_files) is expected


def test_a_folder_of_texts_is_not_a_model(tmp_path):
    texts, model = tmp_path / "texts", tmp_path / "model"
    texts.mkdir()
    model.mkdir()
    (model / "config.json").write_text("{}")
    assert not is_model(str(texts), True, takes_files=True)
    assert is_model(str(texts), True, takes_files=False)  # reported as a folder without a model
    assert is_model(str(model), True, takes_files=True)
