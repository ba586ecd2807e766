"""Names of the hub: what looks like one, and what happens without the extra or without a network."""

from __future__ import annotations

import sys
import types

import pytest

from hub.folder_tools import make
from maskwright.core.errors import MissingExtraError, MissingFileError
from maskwright.hub.folders import load_model


def stand_in(monkeypatch, download):
    """Replace huggingface_hub by one whose snapshot_download is `download`."""
    library, errors = types.ModuleType("huggingface_hub"), types.ModuleType("huggingface_hub.errors")
    library.snapshot_download = download
    errors.HfHubHTTPError = type("HfHubHTTPError", (Exception,), {})
    errors.LocalEntryNotFoundError = type("LocalEntryNotFoundError", (Exception,), {})
    monkeypatch.setitem(sys.modules, "huggingface_hub", library)
    monkeypatch.setitem(sys.modules, "huggingface_hub.errors", errors)
    return errors


def test_a_hub_name_without_the_extra_says_which_line_brings_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingExtraError, match=r"maskwright\[hub\]"):
        load_model("someone/some-bert")


def test_a_name_is_fetched_and_loaded(monkeypatch, tmp_path):
    folder = tmp_path / "models--someone--some-bert/snapshots/abc"
    make("mlm").save(folder)
    asked = []

    def download(name, **options):
        asked.append((name, options))
        return str(folder)

    stand_in(monkeypatch, download)
    model, _ = load_model("someone/some-bert")
    assert model.head_name == "mlm" and asked[0][0] == "someone/some-bert"
    assert not any("bin" in pattern or "py" in pattern for pattern in asked[0][1]["allow_patterns"])


def test_a_hub_that_does_not_answer_is_one_sentence(monkeypatch):
    def download(name, **options):
        raise errors.HfHubHTTPError("no such repository.\nmore lines")

    errors = stand_in(monkeypatch, download)
    with pytest.raises(MissingFileError, match=r"no folder here.*no such repository\)"):
        load_model("someone/some-bert")


@pytest.mark.parametrize("name", ["./bert", "../bert", "/bert", "a/b/c", "~/bert", "a\\b", "bert/", ".hidden/x"])
def test_paths_are_not_taken_for_names_of_the_hub(monkeypatch, name):
    stand_in(monkeypatch, lambda *_, **__: pytest.fail("asked the hub"))
    with pytest.raises(MissingFileError, match="does not exist"):
        load_model(name)
