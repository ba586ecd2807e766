"""Exported folders give the numbers of the library through its commands, functions and server, also by --executor."""

import copy
import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch

import maskwright as mw
from export.small_models import small
from inference.samples import TEXTS
from maskwright.api import open_embedder, open_predictor
from maskwright.core.errors import ConfigError, CorruptFileError, InputError, MissingExtraError, ModelFolderError
from maskwright.core.storage import accept
from maskwright.core.util import cache_folder
from maskwright.doctor.machine import executors as known_executors
from maskwright.export import executors
from maskwright.export.executors import GRAPHS, executed, fastest, measurements
from maskwright.export.onnx_file import check_onnx
from maskwright.http.model_registry import LoadedModel
from maskwright.inference import embed
from maskwright.serve.models import load_served
from maskwright.serve.settings import ServeSettings
from maskwright.serve.worker import measure

FP32 = ("--precision", "fp32", "--quiet")
PAIRS = [("the cat sat", "on the mat ."), ("a", "dogs chase cats in the garden"), ("rain fell", "a")]


@pytest.fixture(scope="module")
def encoders(encoder_folder, exported_encoder):
    return open_embedder(encoder_folder, precision="fp32"), open_embedder(exported_encoder)


def test_an_exported_encoder_gives_the_embeddings_of_the_library(encoders, encoder_folder, exported_encoder):
    model, graph = encoders
    assert graph.max_length == 24 and graph.normalize
    np.testing.assert_allclose(graph.vectors(TEXTS), model.vectors(TEXTS), atol=1e-5)
    np.testing.assert_allclose(graph.vectors(PAIRS), model.vectors(PAIRS), atol=1e-5)
    assert graph.counts.cut_texts == model.counts.cut_texts > 0
    for settings in ({"pooling": "max", "normalize": False}, {"long": "windows", "stride": 4, "max_length": 12}):
        other, own = (
            open_embedder(encoder_folder, precision="fp32", **settings),
            open_embedder(exported_encoder, **settings),
        )
        np.testing.assert_allclose(own.vectors(TEXTS), other.vectors(TEXTS), atol=1e-5)
    words = zip(graph.word_vectors(TEXTS), model.word_vectors(TEXTS), strict=True)
    assert all(np.allclose(one.vectors, two.vectors, atol=1e-5) and one.words == two.words for one, two in words)


def test_an_exported_classifier_gives_the_predictions_of_the_library(classifier_folder, exported_classifier):
    model, graph = open_predictor(classifier_folder, precision="fp32"), open_predictor(exported_classifier)
    for texts in (TEXTS, PAIRS):
        torch.testing.assert_close(graph.logits(texts), model.logits(texts), atol=1e-4, rtol=1e-4)
        assert [one["label"] for one in graph.predict(texts)] == [one["label"] for one in model.predict(texts)]
    expected = [one["label"] for one in model.predict(["the cat", "a"])]
    assert mw.TextClassifier.load(exported_classifier).predict(["the cat", "a"]).tolist() == expected


def test_commands_open_an_exported_folder(maskwright, encoder_folder, exported_encoder, exported_classifier, tmp_path):
    for folder, name in ((encoder_folder, "a.npy"), (exported_encoder, "b.npy")):
        code, _, err = maskwright("embed", folder, "a text", "another", "--output", tmp_path / name, *FP32)
        assert code == 0, err
    np.testing.assert_allclose(np.load(tmp_path / "b.npy"), np.load(tmp_path / "a.npy"), atol=1e-5)
    code, out, _ = maskwright("predict", exported_classifier, "the cat sat", "--json")
    assert code == 0 and json.loads(out)["label"] in ("no", "perhaps", "yes")


def test_a_server_has_the_routes_that_a_graph_can_answer(exported_encoder, exported_classifier):
    encoder = LoadedModel("encoder", str(exported_encoder), mw.load(exported_encoder))
    classifier = LoadedModel("classifier", str(exported_classifier), mw.load(exported_classifier))
    assert encoder.kind.can("embed") and not classifier.kind.can("embed") and classifier.kind.can("classify")
    assert len(encoder.digest) == 64 and encoder.max_length == 24
    assert measure(encoder.model).batch_tokens and measure(classifier.model, 64).tokens_per_second > 0
    assert encoder.encoder().prepare(TEXTS).run().shape == (len(TEXTS), encoder.model.config.hidden_size)


# -- what a graph cannot do --------------------------------------------------------------------------------------------


def test_what_needs_weights_is_refused_in_a_sentence(exported_encoder, exported_classifier, tmp_path):
    model = mw.load(exported_encoder)
    assert copy.deepcopy(model) is model and model.num_parameters > 0
    for refused, error, said in (
        (lambda: mw.load(exported_encoder, "classification", labels=2), ModelFolderError, "without weights"),
        (lambda: open_embedder(exported_encoder, layers="embeddings").vectors(["a"]), ModelFolderError, "last layer"),
        (lambda: open_embedder(exported_classifier).vectors(["a"]), ModelFolderError, "--head none"),
        (lambda: open_embedder(exported_encoder, precision="bf16"), ConfigError, "exported as fp32"),
        (lambda: model.save(tmp_path / "out"), ConfigError, "no weights to save"),
        (lambda: model(torch.ones(1, 2, dtype=torch.long), labels=torch.ones(1)), InputError, "has no loss"),
        (lambda: open_predictor(exported_encoder, device="mps"), ConfigError, "runs on the CPU"),
        (lambda: mw.TextClassifier(exported_classifier).fit(["a", "b"], ["x", "y"]), ModelFolderError, "training"),
    ):
        with pytest.raises(error, match=said):
            refused()


def test_exporting_and_describing_an_exported_folder(maskwright, refused, exported_encoder, tmp_path):
    refused("is an exported graph already", "export", exported_encoder, "-o", tmp_path / "out", "--quiet")
    code, out, _ = maskwright("doctor", "model", exported_encoder, "--json")
    assert code == 0 and json.loads(out)["head"] is None


@pytest.fixture
def folder(exported_encoder, tmp_path):
    return shutil.copytree(exported_encoder, tmp_path / "changed")


def test_a_changed_graph_is_not_opened(folder):
    graph = folder / "onnx" / "model.onnx"
    data = bytearray(graph.read_bytes())
    data[-100] ^= 1
    graph.write_bytes(data)
    with pytest.raises(CorruptFileError, match=r"model\.onnx"):
        mw.load(folder)
    (folder / "manifest.json").unlink()
    facts = json.loads((folder / "maskwright.json").read_text(encoding="utf-8"))
    del facts["manifest"]
    (folder / "maskwright.json").write_text(json.dumps(facts), encoding="utf-8")
    with pytest.raises(ModelFolderError, match="has no manifest"):
        mw.load(folder)


def external(location):
    def change(graph) -> None:
        tensor = next(one for one in graph.graph.initializer if len(one.raw_data) > 64)
        tensor.ClearField("raw_data")
        tensor.data_location = 1
        tensor.external_data.add(key="location", value=location)

    return change


def custom(graph) -> None:
    graph.graph.node[0].domain = "com.example"


def old(graph) -> None:
    graph.opset_import[0].version = 9


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (custom, "custom operator, com.example"),
        (old, "opset 9, which is too old"),
        (external("../../secret.bin"), "outside of its folder"),
        (external("/etc/passwd"), "outside of its folder"),
        (external("model.onnx_data"), "missing"),
    ],
)
def test_a_graph_that_is_not_ours(maskwright, folder, change, said):
    onnx = pytest.importorskip("onnx")
    path = folder / "onnx" / "model.onnx"
    graph = onnx.load(path)
    change(graph)
    path.write_bytes(graph.SerializeToString())
    with pytest.raises(ModelFolderError, match=said):
        check_onnx(path)
    if change is custom:
        for expected in (r"model.onnx", said):  # its hash, and what it contains when that is accepted
            code, out, err = maskwright("embed", folder, "a text", "--quiet")
            assert code == 2 and out == "" and expected in err and err.count("\n") == 1
            accept(folder)


def test_a_file_that_is_no_graph_or_is_missing(maskwright, folder):
    path = folder / "onnx" / "model.onnx"
    path.write_bytes(b"\xff\xfe not a graph")
    with pytest.raises(ModelFolderError, match="is not an ONNX graph"):
        check_onnx(path)
    path.unlink()
    accept(folder)
    with pytest.raises(ModelFolderError, match=r"model\.onnx is missing"):
        mw.load(folder)


@pytest.mark.parametrize(
    "entry",
    [{"format": "onnx"}, [], {"format": "onnx", "precision": "fp32", "graphs": {"model": {"file": "../model.onnx"}}}],
)
def test_a_damaged_description_is_a_sentence(folder, entry):
    facts = json.loads((folder / "maskwright.json").read_text(encoding="utf-8"))
    (folder / "maskwright.json").write_text(json.dumps(facts | {"export": entry}), encoding="utf-8")
    accept(folder)
    with pytest.raises((ModelFolderError, InputError)):
        mw.load(folder)


def test_a_missing_runtime_names_the_extra(exported_encoder, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'maskwright\[export\]'"):
        mw.load(exported_encoder)


def test_a_text_beyond_the_length_of_the_graph(exported_encoder):
    with pytest.raises(InputError, match="supports 3 to 40"):
        open_embedder(exported_encoder, max_length=41)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def exporting(monkeypatch, exported_encoder, exported_classifier):
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


@pytest.mark.compatibility(
    "torch 2.13.0",
    theirs="After an operation on several threads, idle threads keep the cores busy for 2 to 5 ms and delay a runtime "
    "in the same process",
    ours="The hidden states of a graph are pooled by one thread",
)
def test_the_states_of_a_graph_are_pooled_by_one_thread(cache, exporting, encoder_folder, monkeypatch):
    used, before, pool = [], torch.get_num_threads(), embed.pool
    monkeypatch.setattr(embed, "pool", lambda *given: used.append(torch.get_num_threads()) or pool(*given))
    torch.set_num_threads(2)
    try:
        for name in (encoder_folder, executed(encoder_folder, "onnxruntime", "fp32", head="none")[0]):
            mw.pipeline(str(name), "embed").vectors(["a text"])
        used.append(torch.get_num_threads())
    finally:
        torch.set_num_threads(before)
    assert used == [2, 1, 2]


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
    (cache_folder(GRAPHS) / first / "onnx" / "model.onnx").write_bytes(b"changed")
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
