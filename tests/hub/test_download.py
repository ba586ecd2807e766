"""Names of models: IDs of the Hub, short names, and the errors without the extra or a network."""

from __future__ import annotations

import socket
import sys
import threading
import time
import types
from fnmatch import fnmatch
from pathlib import Path

import pytest

import maskwright as mw
from hub.folder_tools import make
from maskwright.core.errors import CorruptFileError, MissingExtraError, MissingFileError
from maskwright.hub import download, published
from maskwright.hub import download as hub
from maskwright.hub.folders import load_model
from maskwright.hub.published import short_names
from minilm import minilm_folder


def stand_in(monkeypatch, download, reachable=True, offline=False):
    """Replace huggingface_hub by one whose snapshot_download is `download`."""
    monkeypatch.setattr(hub, "is_reachable", lambda address: reachable)
    library, errors = types.ModuleType("huggingface_hub"), types.ModuleType("huggingface_hub.errors")
    library.snapshot_download = download
    library.constants = types.SimpleNamespace(ENDPOINT="https://hub.example", HF_HUB_OFFLINE=offline)
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
    patterns = asked[0][1]["allow_patterns"]
    assert not any("bin" in pattern or "py" in pattern for pattern in patterns)
    for name in ("config.json", "model.safetensors", "vocab.txt", "merges.txt", "spiece.model", "source.spm"):
        assert any(fnmatch(name, pattern) for pattern in patterns), name


def test_a_hub_prefix_names_a_revision_and_never_a_folder(monkeypatch, tmp_path):
    folder = tmp_path / "models--someone--some-bert/snapshots/abc"
    make("mlm").save(folder)
    asked = []

    def download(name, **options):
        asked.append((name, options["revision"]))
        return str(folder)

    stand_in(monkeypatch, download)
    (tmp_path / "someone" / "some-bert").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    for name in ("hub:someone/some-bert@v1.2", "hub:someone/some-bert"):
        assert load_model(name)[0].head_name == "mlm"
    assert list(dict.fromkeys(asked)) == [("someone/some-bert", "v1.2"), ("someone/some-bert", None)]
    with pytest.raises(MissingFileError, match="write hub:OWNER/NAME"):
        load_model("hub:../some-bert")


def test_a_hub_that_does_not_answer_is_one_sentence(monkeypatch):
    def download(name, **options):
        raise errors.HfHubHTTPError("no such repository.\nmore lines")

    errors = stand_in(monkeypatch, download)
    with pytest.raises(MissingFileError, match=r"not an existing folder.*no such repository\)"):
        load_model("someone/some-bert")


@pytest.mark.parametrize(
    ("offline", "said"), [(False, "could not be reached within 2 seconds"), (True, "offline mode")]
)
def test_an_unreachable_hub_is_skipped_and_its_cache_used(monkeypatch, offline, said):
    def download(name, **options):
        asked.append(options["local_files_only"])
        raise errors.LocalEntryNotFoundError("a long story of the library")

    asked = []
    errors = stand_in(monkeypatch, download, reachable=False, offline=offline)
    with pytest.raises(MissingFileError, match=rf"https://hub\.example .*{said}.*no copy\)"):
        load_model("someone/some-bert")
    assert asked == [True]


def test_a_copy_in_the_cache_is_used_without_the_network(monkeypatch, tmp_path):
    folder = tmp_path / "models--someone--some-bert/snapshots/abc"
    make("mlm").save(folder)
    stand_in(monkeypatch, lambda *_, **__: str(folder), reachable=False)
    assert load_model("someone/some-bert")[0].head_name == "mlm"


@pytest.mark.parametrize(
    "name",
    [
        "./bert", "../bert", "/bert", "a/b/c", "~/bert", "a\\b", "bert/", ".hidden/x", "a b", "-bert", "bert.",
        "x" * 97, "some--bert", "a..b", "source.spm", "someone/model.bin", "bert.zip", "here/bert", "b\u00e9rt",
        "model.safetensors",
    ],
)  # fmt: skip
def test_paths_are_not_taken_for_names_of_the_hub(monkeypatch, tmp_path, name):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path)
    stand_in(monkeypatch, lambda *_, **__: pytest.fail("asked the hub"))
    with pytest.raises(MissingFileError, match="does not exist"):
        load_model(name)


def test_a_server_that_listens_is_reachable_and_a_closed_port_is_not(monkeypatch):
    for proxy in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(proxy, raising=False)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        assert hub.is_reachable(address)
        monkeypatch.setenv("http_proxy", address)
        monkeypatch.setenv("no_proxy", "")
        assert hub.is_reachable("http://no-such-name.invalid"), "the proxy is what has to answer"
        monkeypatch.delenv("http_proxy")
    assert not hub.is_reachable(address)


def test_waiting_for_a_server_ends(monkeypatch):
    """A name server that is silent would otherwise hold the command up for as long as it likes."""
    over = threading.Event()

    def silent(*_, **__):
        over.wait(60)
        raise OSError("no answer")

    monkeypatch.setattr(socket, "create_connection", silent)
    started = time.monotonic()
    assert not hub.is_reachable("https://hub.example", seconds=0.2)
    assert time.monotonic() - started < 5
    over.set()


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


def test_names_of_models_are_the_shortest_that_tell_them_apart(tmp_path):
    assert short_names(["runs/a/model", "runs/b/model"]) == ["a", "b"]
    assert short_names(["x/a", "y/a"]) == ["x/a", "y/a"]
    assert short_names(["bert-base-uncased"]) == ["bert-base-uncased"]
    (tmp_path / "model").mkdir()
    assert short_names([str(tmp_path / "model")]) == [tmp_path.name]
    assert short_names([]) == []
