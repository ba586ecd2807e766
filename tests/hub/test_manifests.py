"""Folders that were written here record that they have a manifest: no file, and no check, disappears in silence."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import maskwright as mw
from hub.folder_tools import foreign, make
from maskwright.core import storage
from maskwright.core import storage as sealed
from maskwright.core.errors import CorruptFileError, InputError
from maskwright.doctor.model import accept_model, examine_model
from maskwright.hub.folders import load_model


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model folder of ours."""
    make("pretraining").save(tmp_path / "m")
    return tmp_path / "m"


def tokenizer_folder(tmp_path: Path) -> Path:
    mw.Tokenizer.train_from_iterator(["a cat sat", "a dog ran"], "word", 20).save(tmp_path / "tok")
    return tmp_path / "tok"


def test_a_missing_manifest_is_an_error_that_names_the_fix(folder: Path):
    (folder / "manifest.json").unlink()
    with pytest.raises(CorruptFileError, match=r"manifest\.json is missing") as caught:
        load_model(folder)
    assert f"maskwright doctor model {folder} --accept" in str(caught.value)


def test_deleting_both_records_leaves_a_foreign_folder_which_a_note_tells(folder: Path, capsys):
    for name in ("manifest.json", "maskwright.json"):
        (folder / name).unlink()
    report = load_model(folder)[1]
    assert not report.is_verified
    mw.load(folder)
    assert "has no manifest.json" in capsys.readouterr().err


def test_deleting_only_maskwright_json_is_noticed(folder: Path):
    (folder / "maskwright.json").unlink()
    with pytest.raises(CorruptFileError, match=r"maskwright\.json is missing"):
        load_model(folder)


def test_a_foreign_manifest_json_is_not_taken_for_ours(folder: Path):
    foreign(folder)
    (folder / "manifest.json").write_text(json.dumps({"name": "an app", "files": ["x"]}), encoding="utf-8")
    assert not load_model(folder)[1].is_verified


@pytest.mark.parametrize("victim", ["manifest.json", "tokenizer.json", "tokenizer_config.json"])
def test_a_tokenizer_folder_misses_what_is_deleted(tmp_path: Path, victim: str):
    folder = tokenizer_folder(tmp_path)
    (folder / victim).unlink()
    with pytest.raises(CorruptFileError, match=victim):
        mw.Tokenizer.load(folder)


def test_the_files_of_a_tokenizer_may_be_copied_into_a_foreign_folder(folder: Path, tmp_path: Path):
    foreign(folder)
    for path in tokenizer_folder(tmp_path).iterdir():
        if path.name != "manifest.json":
            shutil.copy(path, folder / path.name)
    assert not load_model(folder)[1].is_verified
    mw.Tokenizer.load(folder).save(tmp_path / "again")
    (tmp_path / "again" / "manifest.json").unlink()
    with pytest.raises(CorruptFileError, match=r"manifest\.json is missing"):
        mw.Tokenizer.load(tmp_path / "again")
    accept_model(tmp_path / "again")
    assert mw.Tokenizer.load(tmp_path / "again").facts == mw.Tokenizer.load(tmp_path / "tok").facts


def test_accepting_shows_what_changed_and_records_it(folder: Path):
    (folder / "README.md").write_text("my own card", encoding="utf-8")
    (folder / "NOTES.md").write_text("new", encoding="utf-8")
    with pytest.raises(CorruptFileError, match="--accept"):
        load_model(folder)
    found = accept_model(folder)
    assert set(found) == {"README.md", "NOTES.md"}
    assert "bytes; its manifest records" in found["README.md"] and "is new" in found["NOTES.md"]
    assert load_model(folder)[1].is_verified and accept_model(folder) == {}
    (folder / "NOTES.md").unlink()
    assert "is missing" in accept_model(folder)["NOTES.md"]
    assert examine_model(folder)["manifest"] == "all files match"


@pytest.mark.parametrize("manifest", [None, "{", '{"files": 3}'])
def test_accepting_a_folder_whose_manifest_is_gone_or_damaged(folder: Path, manifest: str | None):
    (folder / "manifest.json").unlink()
    if manifest is not None:
        (folder / "manifest.json").write_text(manifest, encoding="utf-8")
    with pytest.raises(CorruptFileError, match="--accept"):
        load_model(folder)
    accept_model(folder)
    load_model(folder)


def test_accepting_a_foreign_folder_protects_it_from_then_on(folder: Path):
    foreign(folder)
    accept_model(folder)
    assert load_model(folder)[1].is_verified and sealed.read_facts(folder)["manifest"] == "manifest.json"
    (folder / "manifest.json").unlink()
    with pytest.raises(CorruptFileError, match="--accept"):
        load_model(folder)


def as_in_the_cache(folder: Path) -> Path:
    """The folder as the hub's cache keeps it: links into blobs/."""
    snapshot, blobs = folder.parent / "snapshots" / "1", folder.parent / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    for number, name in enumerate(path.name for path in folder.iterdir()):
        (folder / name).rename(blobs / str(number))
        (snapshot / name).symlink_to(Path("../..") / "blobs" / str(number))
    return snapshot


def test_a_folder_of_links_in_a_download_cache_is_verified(folder: Path, monkeypatch: pytest.MonkeyPatch):
    snapshot = as_in_the_cache(folder)
    monkeypatch.setattr("maskwright.hub.folders.find_folder", lambda name: (snapshot, folder.parent))
    monkeypatch.setattr("maskwright.doctor.model.find_folder", lambda name: (snapshot, folder.parent))
    assert load_model("owner/name")[1].is_verified
    with pytest.raises(InputError, match="Hugging Face Hub"):
        accept_model("owner/name")
    weights = (snapshot / "model.safetensors").resolve()
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x55")
    with pytest.raises(CorruptFileError, match=r"model\.safetensors has changed"):
        load_model("owner/name")


def test_a_manifest_cannot_lead_out_of_its_root(tmp_path: Path):
    (tmp_path / "blobs").mkdir()
    (tmp_path / "blobs" / "x").write_text("x", encoding="utf-8")
    with storage.new_folder(tmp_path / "m") as new:
        storage.write_text(new / "a", "x")
    manifest = storage.read_manifest(tmp_path / "m")
    storage.write_json(tmp_path / "m" / "manifest.json", {"files": {"../blobs/x": manifest["a"]}})
    for root in (None, tmp_path):
        with pytest.raises(InputError, match="is outside"):
            storage.verify_folder(tmp_path / "m", root=root)
