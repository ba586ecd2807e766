"""`maskwright convert` on the command line, and every other command that meets a folder which it is for."""

import json

import pytest

from hub.bin_samples import saved
from hub.folder_tools import foreign, tensors
from inference.samples import tiny


@pytest.fixture
def old(tmp_path):
    folder = tmp_path / "old"
    tiny("pretraining").save(folder)
    foreign(folder)
    (folder / "pytorch_model.bin").write_bytes(saved(tensors(folder)))
    (folder / "model.safetensors").unlink()
    return folder


def test_the_folder_that_convert_writes_is_used_at_once(maskwright, old, tmp_path):
    code, out, err = maskwright("export", old, "--to", "folder", "-o", tmp_path / "new", "--json")
    found = json.loads(out)
    assert code == 0 and "sandboxed process" in err
    assert found["files"] == ["model.safetensors"] and found["dtypes"] == {"float32": found["num_tensors"]}
    code, out, _ = maskwright("fill-mask", tmp_path / "new", "the [MASK] sat", "--json")
    assert code == 0 and json.loads(out)["masks"]


def test_weights_are_stored_in_half_the_size(as_json, maskwright, refused, tmp_path):
    tiny("pretraining").save(tmp_path / "model")
    words = ("export", tmp_path / "model", "--to", "folder", "-o")
    found = as_json(*words, tmp_path / "small", "--weights", "fp16")
    assert found["dtypes"] == {"fp16": found["num_tensors"]}
    whole, small = ((tmp_path / name / "model.safetensors").stat().st_size for name in ("model", "small"))
    assert small < 0.6 * whole and found["num_bytes"] == small
    code, out, _ = maskwright("fill-mask", tmp_path / "small", "the [MASK] sat", "--json")
    assert code == 0 and json.loads(out)["masks"]
    refused("int4", *words, tmp_path / "other", "--weights", "int4")
    assert not (tmp_path / "other").exists()


def test_options_of_graphs_and_of_folders_do_not_mix(refused, tmp_path):
    for words, said in ((("--weights", "fp16"), "--to folder"), (("--to", "folder", "--opset", 20), "--opset")):
        refused(said, "export", tmp_path / "m", "-o", tmp_path / "o", *words)
