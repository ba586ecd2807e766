"""Graphs in half precision and int8: their files, what they leave out, and that a poor one is not published."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch

from export.small_models import small
from inference.samples import TEXTS
from maskwright.api import open_embedder
from maskwright.core.errors import ConfigError
from maskwright.export.agreement import LIMITS, Limits, OutputAgreement, typical_texts
from maskwright.export.cached import networks_of
from maskwright.export.config import ExportConfig
from maskwright.export.export import export_model
from maskwright.export.onnx_file import to_half, write_onnx
from maskwright.export.openvino_file import to_half as to_half_openvino
from maskwright.export.openvino_file import write_openvino
from maskwright.export.program import trace
from maskwright.inference.engine.operators import largest_weight
from maskwright.models.model import SentenceSettings


@pytest.fixture(scope="module")
def typical(tmp_path_factory):
    """A file of typical texts."""
    words = " ".join(TEXTS).split()
    draw = np.random.default_rng(0)
    texts = [" ".join(draw.choice(words, size)) for size in draw.integers(1, 12, 80)]
    path = tmp_path_factory.mktemp("typical") / "texts.txt"
    path.write_text("\n".join(texts), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def outlier_folder(tmp_path_factory):
    """An encoder one of whose feed-forward units has very large activations, and small weights after them."""
    model = small("bert-tiny", hidden_size=32, intermediate_size=64)
    model.sentence = SentenceSettings("mean", True, 24)
    with torch.no_grad():
        for layer in model.encoder.layers:
            layer.ffn.up.weight[0] *= 300
            layer.ffn.down.weight[:, 0] /= 300
    folder = tmp_path_factory.mktemp("outliers") / "model"
    model.save(folder)
    return folder


def test_typical_texts_are_short_long_and_joined():
    texts = [f"{number} " * 9 for number in range(40)]
    lengths = [len(text.split()) for text in typical_texts(texts)]
    assert len(lengths) == 2 * len(texts) and {1, 2, 3, 5, 9, 32, 64, 128} <= set(lengths) and max(lengths) == 128
    assert typical_texts([("a b c", "d e f")])[1] == ("a", "d")


@pytest.mark.parametrize(
    ("output", "found", "said"),
    [
        ("sentence_embedding", OutputAgreement(0.1, 9, min_cosine=0.97, mean_cosine=0.99), "smallest cosine of 0.9700"),
        ("last_hidden_state", OutputAgreement(0.1, 9, min_cosine=0.5, mean_cosine=0.6), ""),
        ("logits", OutputAgreement(0.1, 9, same_class=0.98), "98.0% equal classes"),
        ("logits", OutputAgreement(0.1, 9, correlation=0.9), "correlation of 0.9000"),
        ("logits", OutputAgreement(0.1, 9, same_class=0.995), ""),
        ("logits", OutputAgreement(float("nan"), 9, same_class=1.0), "is not finite"),
    ],
)
def test_the_limits_of_int8_are_those_of_what_is_used(output, found, said):
    shortfall = found.shortfall(output, Limits(min_cosine=0.98, same_class=0.99))
    assert said in shortfall if said else shortfall == ""
    assert found.shortfall(output, LIMITS["fp32"])  # all of them are beyond the limit of float32


@pytest.mark.slow
@pytest.mark.compatibility(
    "onnxruntime 1.31.1",
    theirs="A dynamically quantized graph has one range for a whole call: padding and other texts change a result",
    ours="Maskwright and the script in the README run one text per call",
)
def test_int8_leaves_out_the_second_products_where_that_is_needed(outlier_folder, typical, tmp_path):
    pytest.importorskip("onnxscript", reason="the extra export is not installed")
    found = export_model(
        ExportConfig(
            model=str(outlier_folder), output=tmp_path / "out", precision="int8", calibrate_on=typical, min_cosine=0.95
        )
    )
    quantization = found.spec["quantization"]
    assert (quantization["quantizer"], quantization["activations"]) == ("onnxruntime", "dynamic")
    # ONNX Runtime's products overflow on CPUs without VNNI, and then the first products may be left out, too.
    left_out = [["ffn.down"]] if largest_weight() == 127 else [["ffn.down"], ["ffn.down", "ffn.up"]]
    assert quantization["products_in_float32"] in left_out
    assert found.spec["agreement"]["outputs"]["sentence_embedding"]["min_cosine"] >= 0.95
    assert sorted(path.name for path in (found.folder / "onnx").iterdir()) == ["model_quantized.onnx"]
    assert found.spec["size_bytes"] < found.spec["float32_size_bytes"]
    page = (found.folder / "README.md").read_text(encoding="utf-8")
    assert "smallest cosine" in page and "As float32 it is" in page and "not quantized: ffn.down" in page
    encoder = open_embedder(found.folder)
    expected = open_embedder(outlier_folder, precision="fp32").vectors(TEXTS)
    vectors = encoder.vectors(TEXTS)
    assert (vectors * expected).sum(axis=1).min() > 0.9
    alone = np.concatenate([encoder.vectors([text]) for text in TEXTS])
    np.testing.assert_array_equal(vectors, alone)  # no text depends on its neighbors
    script = page.split("```python\n")[1].split("```")[0]
    assert "enable_padding" not in script and "one text per call" in page
    done = subprocess.run([sys.executable, "-c", script], cwd=found.folder, capture_output=True, text=True, check=True)
    assert done.stdout.count("'sentence_embedding': (1, 32)") == 2  # of one call each


@pytest.mark.slow
def test_a_poor_int8_graph_is_not_published(maskwright, encoder_folder, typical, tmp_path):
    pytest.importorskip("onnxscript", reason="the extra export is not installed")
    words = ("--precision", "int8", "--calibrate-on", typical, "--min-cosine", "0.99999", "--quiet")
    code, out, err = maskwright("export", encoder_folder, "-o", tmp_path / "out", *words)
    assert code == 2 and out == "" and err.count("\n") == 1
    assert "smallest cosine of 0." in err and "at least 0.99999" in err and list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_half_precision_has_the_file_of_transformers_js(encoder_folder, exported_encoder, tmp_path):
    found = export_model(ExportConfig(model=str(encoder_folder), output=tmp_path / "out", precision="fp16"))
    assert [path.name for path in (found.folder / "onnx").iterdir()] == ["model_fp16.onnx"]
    assert found.spec["precision"] == "fp16" and "quantization" not in found.spec
    assert found.spec["agreement"]["outputs"]["sentence_embedding"]["min_cosine"] > 0.999
    expected = open_embedder(exported_encoder).vectors(TEXTS)
    np.testing.assert_allclose(open_embedder(found.folder).vectors(TEXTS), expected, atol=2e-2)


def one_text(length):
    """The padded inputs of one text of drawn tokens."""
    ids = np.random.default_rng(length).integers(5, 40, (1, length))
    return {"input_ids": ids, "attention_mask": np.ones_like(ids)}


@pytest.fixture(scope="module")
def half_graphs(tmp_path_factory):
    """Graphs of three networks in both precisions, and the longest text of each."""
    pytest.importorskip("onnxscript", reason="the extra export is not installed")
    onnxruntime = pytest.importorskip("onnxruntime", reason="the extra export is not installed")
    found = {}
    for name, longest in (("mpnet-base", 140), ("modernbert-base", 2200), ("distilbert-base", 1200)):
        model = small(name, num_hidden_layers=1, max_position_embeddings=longest)
        with torch.no_grad():
            if name == "mpnet-base":
                model.encoder.relative.weight.mul_(5)
            if name == "distilbert-base":
                model.encoder.layers[0].ffn_norm.bias.fill_(80)  # the sum over a long text is beyond float16
        folder = tmp_path_factory.mktemp(name)
        (network,) = networks_of(model)
        files = write_onnx(trace(network, longest), network, folder, ExportConfig(model="model", output="out"))
        paths = [*files, *to_half(folder, files, folder, (), ())]
        found[name] = [onnxruntime.InferenceSession(folder / path) for path in paths], longest
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mpnet-base", "modernbert-base", "distilbert-base"])
@pytest.mark.compatibility(
    "onnxruntime 1.31.1",
    theirs="convert_float_to_float16 rounds the logarithm of distance buckets and the angles of rotary positions",
    ours="Buckets and angles are tables in the graph, so float16 changes no position at any length",
)
def test_half_precision_is_as_close_at_every_distance(name, half_graphs):
    (full, half), longest = half_graphs[name]
    largest = {}
    for length in (8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 128, 129, 140, 600, 1200, 2200):
        if length <= longest:
            inputs = one_text(length)
            exact, rounded = (
                session.run(["last_hidden_state", "sentence_embedding"], inputs) for session in (full, half)
            )
            largest[length] = max(np.abs(a - b).max() / np.abs(a).max() for a, b in zip(exact, rounded, strict=True))
    assert max(largest.values()) < 4e-3, largest


@pytest.mark.slow
@pytest.mark.compatibility(
    "openvino 2026.4.1",
    theirs="save_model rounds the frequencies of rotary positions to float16: cosines of long texts are wrong by 1",
    ours="Cosines and sines are tables in the graph, so only they are rounded",
)
def test_an_openvino_graph_in_half_precision_keeps_rotary_positions(tmp_path):
    openvino = pytest.importorskip("openvino", reason="openvino is not installed")
    pytest.importorskip("onnxscript", reason="the extra export is not installed")
    longest = 2200
    (network,) = networks_of(small("modernbert-base", num_hidden_layers=1, max_position_embeddings=longest))
    files = write_openvino(trace(network, longest), network, tmp_path, ExportConfig(model="model", output="out"))
    (tmp_path / "half").mkdir()
    paths = [tmp_path / files[0], tmp_path / "half" / to_half_openvino(tmp_path, files, tmp_path / "half", (), ())[0]]
    core = openvino.Core()
    full, half = (core.compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"}) for path in paths)
    for length in (16, 200, longest):
        exact, rounded = (graph(one_text(length))["last_hidden_state"] for graph in (full, half))
        assert np.abs(exact - rounded).max() < 4e-3 * np.abs(exact).max()


@pytest.mark.slow
@pytest.mark.compatibility(
    "openvino 2026.4.1",
    theirs="A graph with 16-bit activations after a Relu gives wrong numbers without an error",
    ours="Graphs have 8-bit activations only, and every graph is compared with the model in its runtime",
)
@pytest.mark.parametrize("precision", ["fp16", "bf16", "int8"])
def test_an_openvino_graph_has_other_precisions(precision, encoder_folder, typical, tmp_path):
    pytest.importorskip("openvino", reason="openvino is not installed")
    pytest.importorskip("onnxscript", reason="the extra export is not installed")
    if precision == "int8" and largest_weight() < 127:
        pytest.skip("int8 products of OpenVINO overflow on CPUs without VNNI")
    settings = {}
    if precision == "int8":
        pytest.importorskip("nncf", reason="nncf is not installed")
        settings = {"calibrate_on": typical, "min_cosine": 0.9}
    config = ExportConfig(
        model=str(encoder_folder), output=tmp_path / "out", to="openvino", precision=precision, **settings
    )
    found = export_model(config)
    expected = open_embedder(encoder_folder, precision="fp32").vectors(TEXTS)
    assert (open_embedder(found.folder).vectors(TEXTS) * expected).sum(axis=1).min() > 0.9
    hint = '"INFERENCE_PRECISION_HINT": "bf16"' if precision == "bf16" else '"INFERENCE_PRECISION_HINT": "f32"'
    assert hint in (found.folder / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--precision", "bf16"], "--to onnx has no bf16 graph"),
        (["--to", "torch", "--precision", "fp16"], "use --precision fp32"),
        (["--precision", "int8"], "pass a file with --calibrate-on"),
        (["--calibrate-on", "texts.txt"], "goes with --precision int8"),
    ],
)
def test_a_combination_that_does_not_exist_is_a_sentence(maskwright, encoder_folder, tmp_path, words, said):
    code, out, err = maskwright("export", encoder_folder, "-o", tmp_path / "out", "--quiet", *words)
    assert code == 2 and out == "" and err.startswith("error: ") and err.count("\n") == 1 and said in err
    assert not (tmp_path / "out").exists()


def test_int8_needs_enough_texts(maskwright, encoder_folder, tmp_path):
    (tmp_path / "few.txt").write_text("a text\nanother", encoding="utf-8")
    words = ("--precision", "int8", "--calibrate-on", tmp_path / "few.txt", "--quiet")
    code, _, err = maskwright("export", encoder_folder, "-o", tmp_path / "out", *words)
    assert code == 2 and "has 2 texts" in err and "at least 64" in err


def test_the_gate_is_a_cosine():
    with pytest.raises(ConfigError, match="min_cosine"):
        ExportConfig(model="model", output="out", min_cosine=1.5)
