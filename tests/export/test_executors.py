"""`--executor`: graphs of a model in the cache, the measured rule, and what is rejected."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

from export.small_models import small
from maskwright.core.errors import ConfigError
from maskwright.doctor.machine import executors as known_executors
from maskwright.export import executors
from maskwright.export.executors import cache_folder, executed, fastest, measurements
from maskwright.serve.models import load_served
from maskwright.serve.settings import ServeSettings

FP32 = ("--precision", "fp32", "--quiet")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def exporting(monkeypatch, exported_encoder, exported_classifier):
    """Exports copy the graphs that other tests use. Returns the heads that were exported."""
    heads = []

    def copied(config):
        heads.append(config.head)
        source = exported_encoder if config.head == "none" else exported_classifier
        shutil.copytree(source, config.output, dirs_exist_ok=True)

    monkeypatch.setattr(executors, "export_model", copied)
    return heads


def test_embed_and_predict_compute_by_a_graph_that_is_exported_once(
    maskwright, cache, exporting, encoder_folder, classifier_folder, tmp_path
):
    labels = set()
    for number, executor in enumerate(("own", "onnxruntime", "onnxruntime")):
        given = ("--executor", executor, *FP32)
        path = tmp_path / f"{number}.npy"
        assert maskwright("embed", encoder_folder, "a text", "another", "--output", path, *given)[0] == 0
        _, out, _ = maskwright("predict", classifier_folder, "the cat sat", "--json", *given)
        labels.add(json.loads(out)["label"])
    np.testing.assert_allclose(np.load(tmp_path / "1.npy"), np.load(tmp_path / "0.npy"), atol=1e-5)
    assert len(labels) == 1
    assert exporting == ["none", "stored"]  # the second run found the graphs
    assert len(list((cache / "maskwright" / "graphs").iterdir())) == 2


def test_a_server_computes_by_a_graph(cache, exporting, classifier_folder):
    settings = ServeSettings(models=(str(classifier_folder),), executor="onnxruntime", precision="fp32")
    (served,) = load_served(settings)
    assert served.model.graph_precision == "fp32" and served.kind.can("classify")


def test_other_weights_have_another_graph_and_a_changed_one_is_exported_again(cache, exporting, tmp_path):
    small("bert-tiny").save(tmp_path / "one")
    small("bert-tiny", layer_norm_eps=1e-5).save(tmp_path / "two")
    first, _ = executed(tmp_path / "one", "onnxruntime", "fp32", head="none")
    assert executed(tmp_path / "two", "onnxruntime", "fp32", head="none")[0] != first
    assert executed(tmp_path / "one", "onnxruntime", "fp32", head="none")[0] == first and len(exporting) == 2
    (cache_folder() / first / "onnx" / "model.onnx").write_bytes(b"changed")
    executed(tmp_path / "one", "onnxruntime", "fp32", head="none")
    assert len(exporting) == 3


def test_auto_measures_once_and_takes_the_fastest(cache, exporting, monkeypatch, encoder_folder):
    monkeypatch.setattr(executors, "installed", lambda: ["onnxruntime"])
    executed(encoder_folder, "auto", "fp32", head="none")  # really measured
    (facts,) = measurements()
    assert set(facts["milliseconds"]) == {"own", "onnxruntime"} and min(facts["milliseconds"].values()) > 0
    shutil.rmtree(cache)
    times = iter((3.0, 1.0))
    monkeypatch.setattr(executors, "_time", lambda model: next(times))
    for _ in range(2):  # the second time from the file
        found, precision = executed(encoder_folder, "auto", "fp32", head="none")
        assert found.startswith(str(cache)) and precision == "auto"
    (facts,) = measurements()
    assert facts["milliseconds"] == {"own": 3.0, "onnxruntime": 1.0} and facts["model"] == str(encoder_folder)
    said = known_executors()
    assert said["own"].startswith("the default") and set(said) >= {"openvino", "onnxruntime"}
    assert said[f"auto for {encoder_folder}, fp32"] == "onnxruntime: ms for a short text: own 3.00, onnxruntime 1.00"


@pytest.mark.parametrize(
    ("times", "best"),
    [
        ({"own": 1.0}, "own"),
        ({"own": 1.0, "openvino": 0.97}, "own"),  # within the noise
        ({"own": 1.0, "openvino": 0.8, "onnxruntime": 0.7}, "onnxruntime"),
    ],
)
def test_the_rule(times, best):
    assert fastest(times) == best


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--executor", "onnxruntime", "--device", "cuda"], "computes on the CPU: remove --device cuda"),
        (["--executor", "onnxruntime", "--precision", "bf16"], "use --precision fp32 or fp16"),
        (["--executor", "onnxruntime", "--layers", "embeddings"], "last layer"),
        (["--executor", "tensorrt"], "'tensorrt'"),
    ],
)
def test_what_an_executor_does_not_do_is_a_sentence(maskwright, cache, exporting, encoder_folder, words, said):
    code, out, err = maskwright("embed", encoder_folder, "a text", "--quiet", *words)
    assert code == 2 and out == "" and said in err


def test_int8_names_the_command_that_exports_it(encoder_folder):
    with pytest.raises(ConfigError, match="maskwright export --precision int8"):
        executed(encoder_folder, "onnxruntime", "int8")


def test_a_missing_package_names_the_extra(maskwright, cache, monkeypatch, encoder_folder):
    monkeypatch.setattr(executors.util, "find_spec", lambda name: None)
    code, _, err = maskwright("embed", encoder_folder, "a text", "--executor", "openvino", "--quiet")
    assert code == 2 and "maskwright[export]" in err and executors.installed() == []


def test_onnxruntime_reports_no_use_over_the_network(tmp_path):
    pytest.importorskip("onnxruntime", reason="the extra export is not installed")
    # It creates an ID of the device in the cache folder before it reports anything.
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    code = "from maskwright.export.onnx_file import import_onnxruntime; import_onnxruntime()"
    subprocess.run([sys.executable, "-c", code], env=env, check=True)
    assert list(tmp_path.iterdir()) == []
