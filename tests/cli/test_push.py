"""Uploads to a Hub: what is listed, what is rejected, and what arrives at a server with the Hub's HTTP API."""

import json
import shutil

import pytest

from hub.fake_hub import fake_hub
from inference.samples import tiny
from maskwright.core import storage
from maskwright.core.errors import ConfigError, CorruptFileError, InputError, MissingFileError, ModelFolderError
from maskwright.hub.folders import load_model
from maskwright.hub.push import plan_push, push

pytest.importorskip("huggingface_hub", reason="the extra 'hub' is not installed")

from huggingface_hub import constants

NAME = "team/tickets"


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved") / "model"
    tiny("classification", labels=("a", "b")).save(folder)
    return folder


@pytest.fixture
def folder(saved, tmp_path):
    return shutil.copytree(saved, tmp_path / "model")


@pytest.fixture
def hub(monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setenv("HF_TOKEN", "good-token")
    with fake_hub() as found:
        yield found


def test_what_arrives_is_the_folder_with_its_license(saved, hub, tmp_path):
    before = {name: (saved / name).read_bytes() for name in (*storage.files_in(saved), "manifest.json")}
    plan = plan_push(saved, NAME, "apache-2.0")
    assert hub.requests == []
    assert push(plan, private=True, message="First", endpoint=hub.address) == f"{hub.address}/{NAME}"
    files = hub.repositories[NAME]
    assert set(files) == set(before) == set(plan.files) and hub.private == {NAME} and hub.commits == ["First"]
    assert {name: len(data) for name, data in files.items()} == plan.files
    assert {name for name in files if files[name] != before[name]} == {"README.md", "manifest.json"}
    assert files["README.md"].startswith(b"---\nlicense: apache-2.0\nlibrary_name: maskwright\n")
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    model, report = load_model(tmp_path)  # its manifest fits
    assert model.labels == ("a", "b") and not report.new
    assert {name: (saved / name).read_bytes() for name in before} == before
    assert push(plan, message="Second", endpoint=hub.address) and hub.commits == ["First", "Second"]


def test_a_license_is_needed_and_that_of_the_card_is_kept(saved, hub):
    plan = plan_push(saved, NAME)
    assert plan.license == "" and "pipeline_tag: text-classification" in plan.metadata
    with pytest.raises(ConfigError, match="--license"):
        push(plan, endpoint=hub.address)
    assert hub.requests == []


@pytest.mark.parametrize("token", ["bad-token", None])
def test_a_token_that_may_not_write_is_named_and_never_shown(saved, hub, monkeypatch, token, tmp_path):
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "none"))
    if token:
        monkeypatch.setenv("HF_TOKEN", token)
    with pytest.raises(InputError, match="access token with write permission") as found:
        push(plan_push(saved, NAME, "mit"), endpoint=hub.address)
    assert "bad-token" not in str(found.value) and hub.repositories == {}


@pytest.mark.parametrize("name", ["tickets", "a/b/c", "../x/y", "team/", "team/a--b", "team/x.json", "tëam/x"])
def test_names_that_the_hub_does_not_allow(saved, name):
    with pytest.raises(ConfigError, match="OWNER/NAME"):
        plan_push(saved, name)


def test_folders_that_are_not_uploaded(folder, tmp_path):
    with pytest.raises(MissingFileError):
        plan_push(tmp_path / "nowhere", NAME)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelFolderError, match="not a model folder"):
        plan_push(tmp_path / "empty", NAME)
    with pytest.raises(ConfigError, match="license identifier"):
        plan_push(folder, NAME, "Apache License\nx: y")
    (folder / "config.json").write_text("{}")
    with pytest.raises(CorruptFileError, match=r"config\.json"):
        plan_push(folder, NAME)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "training_args.pt", "modeling.py", "sub/x.PKL"])
def test_files_that_can_run_code_are_refused(folder, name):
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_bytes(b"x")
    with pytest.raises(InputError, match="can run code"):
        plan_push(folder, NAME)


def test_tokens_in_files_hidden_files_and_links(folder, tmp_path):
    (folder / ".cache").mkdir()
    (folder / ".cache/token").write_text("hf_" + "a" * 34)
    assert not [name for name in plan_push(folder, NAME).files if name.startswith(".")]
    (folder / "notes.txt").write_text("use hf_" + "a" * 34)
    with pytest.raises(InputError, match="contains an access token"):
        plan_push(folder, NAME)
    (folder / "notes.txt").unlink()
    (tmp_path / "secret.txt").write_text("private")
    (folder / "notes.txt").symlink_to(tmp_path / "secret.txt")
    with pytest.raises(InputError, match="outside"):
        plan_push(folder, NAME)


def test_the_command_lists_and_sends_nothing(saved, hub, maskwright):
    code, out, _ = maskwright("push", saved, NAME)
    assert code == 0 and "model.safetensors" in out and "license: none" in out and "Nothing was sent" in out
    assert f"next:   maskwright push {saved} {NAME} --yes --license apache-2.0" in out
    code, out, _ = maskwright("push", saved, NAME, "--license", "mit", "--json")
    assert code == 0 and json.loads(out)["license"] == "mit" and json.loads(out)["uploaded"] is None
    assert hub.requests == []


def test_the_command_uploads(saved, hub, maskwright, refused, monkeypatch):
    monkeypatch.setattr(constants, "ENDPOINT", hub.address)
    code, out, err = maskwright("push", saved, NAME, "--license", "mit", "--yes")
    assert code == 0 and f"uploaded: {hub.address}/{NAME}" in out and "model.safetensors" in hub.repositories[NAME]
    assert "good-token" not in out + err
    refused("states no license", "push", saved, NAME, "--yes")
