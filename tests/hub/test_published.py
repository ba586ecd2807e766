"""Short names of published checkpoints."""

from __future__ import annotations

from pathlib import Path

import pytest

import maskwright as mw
from maskwright.core.errors import CorruptFileError
from maskwright.hub import download, published
from minilm import minilm_folder


def test_a_short_name_opens_the_installed_package():
    folder = minilm_folder()
    assert download.find_folder("minilm") == (folder, folder)


def test_a_short_name_comes_before_a_folder_of_that_name(tmp_path, monkeypatch):
    folder = minilm_folder()
    for name in ("minilm", "english"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)
    assert download.find_folder("minilm")[0] == folder
    assert download.find_folder("./minilm")[0] == Path("minilm")
    assert download.find_folder(Path("english"))[0] == Path("english")
    assert published.absolute_name("english") == "english"
    assert published.absolute_name("./english") == str(tmp_path / "english")


def test_an_installed_package_with_other_weights_is_not_used(monkeypatch):
    minilm_folder()
    other = published.PublishedModel("owner/name", "0" * 64, published.PUBLISHED["minilm"].package)
    monkeypatch.setitem(published.PUBLISHED, "minilm", other)
    assert published.installed_folder("minilm") is None


def test_downloaded_weights_are_verified(tmp_path, monkeypatch):
    folder = tmp_path / "models--x" / "snapshots" / "1"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"changed")
    monkeypatch.setattr(download, "installed_folder", lambda name: None)
    monkeypatch.setattr(download, "_download", lambda name, also: folder)
    with pytest.raises(CorruptFileError, match="'minilm' means"):
        mw.load("minilm")
