"""Exported ONNX folders: their files, their numbers, and what happens when the graph is not the model."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from inference.samples import TEXTS
from maskwright.api import open_embedder, open_predictor
from maskwright.core.storage import verify_folder
from maskwright.export import export as export_module

SCRIPT = Path(__file__).with_name("script.py")


def outputs_of(folder: Path, texts: list[str]) -> np.ndarray:
    """What a program without torch and maskwright computes."""
    done = subprocess.run([sys.executable, SCRIPT, folder, *texts], capture_output=True, text=True, check=True)
    return np.array(json.loads(done.stdout))


def test_the_folder_has_graph_tokenizer_settings_and_report(exported_encoder):
    names = {path.relative_to(exported_encoder).as_posix() for path in exported_encoder.rglob("*") if path.is_file()}
    wanted = {"onnx/model.onnx", "config.json", "tokenizer.json", "modules.json", "1_Pooling/config.json"}
    assert wanted | {"maskwright.json", "README.md", "manifest.json"} <= names
    assert "model.safetensors" not in names
    verify_folder(exported_encoder)
    spec = json.loads((exported_encoder / "maskwright.json").read_text(encoding="utf-8"))["export"]
    assert spec["max_length"] == 24 and spec["longest"] == 40 and spec["opset"] == 20
    assert spec["agreement"]["outputs"]["sentence_embedding"]["largest_difference"] < 1e-4
    assert spec["agreement"]["num_texts"] >= 64
    axes = [one["axes"] for one in spec["graphs"]["model"]["inputs"]]
    assert axes == [["batch", "sequence"]] * 3
    assert "sentence_embedding" in (exported_encoder / "README.md").read_text(encoding="utf-8")


def test_a_script_with_onnxruntime_and_tokenizers_gives_the_vectors_of_the_library(encoder_folder, exported_encoder):
    expected = open_embedder(encoder_folder, precision="fp32").vectors(TEXTS)
    np.testing.assert_allclose(outputs_of(exported_encoder, TEXTS), expected, atol=1e-5)


def test_a_script_with_onnxruntime_and_tokenizers_gives_the_logits_of_the_library(
    classifier_folder, exported_classifier
):
    expected = open_predictor(classifier_folder, precision="fp32").logits(TEXTS)
    np.testing.assert_allclose(outputs_of(exported_classifier, TEXTS), expected.numpy(), atol=1e-4)


def test_the_script_in_the_readme_runs(exported_encoder):
    page = (exported_encoder / "README.md").read_text(encoding="utf-8")
    script = page.split("```python\n")[1].split("```")[0]
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=exported_encoder, capture_output=True, text=True, check=True
    )
    assert "sentence_embedding" in done.stdout


def test_a_graph_that_differs_is_not_published(maskwright, monkeypatch, encoder_folder, tmp_path):
    def changed(network, longest):
        other = copy.deepcopy(network)
        with torch.no_grad():
            other.model.encoder.layers[1].ffn.down.weight[0, 0] += 5
        return trace(other, longest)

    trace = export_module.trace
    monkeypatch.setattr(export_module, "trace", changed)
    code, out, err = maskwright("export", encoder_folder, "-o", tmp_path / "out", "--quiet")
    assert code == 2 and out == "" and err.count("\n") == 1
    assert "does not agree" in err and "sentence_embedding differs by" in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_command_prints_the_agreement(maskwright, classifier_folder, tmp_path):
    code, out, _ = maskwright("export", classifier_folder, "-o", tmp_path / "out", "--max-length", "20", "--json")
    found = json.loads(out)
    assert code == 0 and found["format"] == "onnx" and found["max_length"] == 20
    assert found["agreement"]["outputs"]["logits"]["same_class"] == 1.0
    assert found["postprocessing"]["labels"] == ["no", "perhaps", "yes"]
    assert found["size_bytes"] == (tmp_path / "out" / "onnx" / "model.onnx").stat().st_size
    code, _, err = maskwright("export", classifier_folder, "-o", tmp_path / "out", "--quiet")
    assert code == 2 and "already exists" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--max-length", "41"], "at most 40"),
        (["--opset", "9"], "18 to 23"),
    ],
)
def test_wrong_settings_end_in_a_sentence(maskwright, encoder_folder, tmp_path, words, said):
    code, out, err = maskwright("export", encoder_folder, "-o", tmp_path / "out", "--quiet", *words)
    assert code == 2 and out == "" and err.startswith("error: ") and err.count("\n") == 1 and said in err
    assert not (tmp_path / "out").exists()


def test_the_source_is_not_overwritten(maskwright, encoder_folder):
    code, _, err = maskwright("export", encoder_folder, "-o", encoder_folder, "--replace", "--quiet")
    assert code == 2 and "is the model itself" in err


def test_a_missing_extra_is_named(maskwright, monkeypatch, encoder_folder, tmp_path):
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    code, _, err = maskwright("export", encoder_folder, "-o", tmp_path / "out", "--quiet")
    assert code == 2 and "maskwright[export]" in err and list(tmp_path.iterdir()) == []
