"""The recipe of the task heads at a size of seconds."""

from __future__ import annotations

import sys

import pytest

from conventions.sources import REPOSITORY
from maskwright.core import storage
from maskwright.hub.folders import load_model, read_facts


@pytest.fixture
def heads(monkeypatch: pytest.MonkeyPatch):
    """The recipe as a module."""
    monkeypatch.syspath_prepend(str(REPOSITORY / "recipes"))
    import english_heads

    return english_heads


@pytest.mark.slow
def test_a_head_is_an_adapter_with_data_license_and_scores(heads, tmp_path, monkeypatch, capsys):
    rows = [("call now and win a prize", "spam"), ("see you at home tonight", "ham")] * 8
    for part in ("train", "dev"):
        lines = ["text\tlabel", *(f"{text} {number}\t{label}" for number, (text, label) in enumerate(rows))]
        storage.write_text(tmp_path / "data" / "sms_spam" / f"{part}.tsv", "\n".join(lines) + "\n")
    monkeypatch.setenv("MASKWRIGHT_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(sys, "argv", ["english_heads.py", "spam", "-o", str(tmp_path / "out"), "--epochs", "1"])
    heads.main()
    assert "| `english-spam` | accuracy |" in capsys.readouterr().out
    folder = tmp_path / "out" / "spam" / "model"
    facts = read_facts(folder)
    assert facts["data"]["license"] and facts["about"] and facts["scores"]["low"] <= facts["scores"]["score"]
    assert sum(path.stat().st_size for path in folder.iterdir()) < 1e6
    model, _ = load_model(folder)
    assert model.adapter is not None and model.adapter.base == "english" and model.labels == ("ham", "spam")
    before = (folder / "adapter_model.safetensors").stat().st_mtime_ns
    heads.main()
    assert (folder / "adapter_model.safetensors").stat().st_mtime_ns == before
