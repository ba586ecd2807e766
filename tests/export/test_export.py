"""Exported folders of every format and precision: their files and numbers, and what is not published."""

import copy
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from export.small_models import small
from inference.samples import TEXTS
from maskwright.api import load, open_embedder, open_predictor
from maskwright.core.errors import ModelFolderError
from maskwright.core.storage import verify_folder
from maskwright.export import export as export_module
from maskwright.export.cached import networks_of
from maskwright.export.config import ExportConfig
from maskwright.export.export import export_model
from maskwright.export.onnx_file import to_half, write_onnx
from maskwright.export.openvino_file import to_half as to_half_openvino
from maskwright.export.openvino_file import write_openvino
from maskwright.export.program import trace
from maskwright.inference.engine.operators import largest_weight
from maskwright.models.build import build
from maskwright.models.model import LateInteraction, SentenceSettings
from maskwright.models.presets import preset
from minilm import minilm_folder

pytest.importorskip("onnxscript", reason="the extra export is not installed")
SCRIPT = Path(__file__).with_name("script.py")
PAGES = Path(__file__).parents[2] / "docs" / "how-to"
SMALL = {"vocab_size": 150, "hidden_size": 16, "num_hidden_layers": 1, "max_position_embeddings": 32}


def export(model, output, **settings):
    return export_model(ExportConfig(model=str(model), output=output, **settings))


def outputs_of(folder: Path, texts: list[str]) -> np.ndarray:
    done = subprocess.run([sys.executable, SCRIPT, folder, *texts], capture_output=True, text=True, check=True)
    return np.array(json.loads(done.stdout))


def said_by_the_page(folder: Path) -> str:
    script = (folder / "README.md").read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    done = subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


def cosines(folder: Path, source: Path) -> np.ndarray:
    """Similarity of the embeddings of a graph and of its model, for each text."""
    expected = open_embedder(source, precision="fp32").vectors(TEXTS)
    return (open_embedder(folder).vectors(TEXTS) * expected).sum(axis=1)


@pytest.fixture(scope="module")
def typical(tmp_path_factory):
    words = " ".join(TEXTS).split()
    draw = np.random.default_rng(0)
    texts = [" ".join(draw.choice(words, size)) for size in draw.integers(1, 12, 80)]
    path = tmp_path_factory.mktemp("typical") / "texts.txt"
    path.write_text("\n".join(texts), encoding="utf-8")
    return path


def test_the_folder_has_graph_tokenizer_settings_and_report(exported_encoder):
    names = {path.relative_to(exported_encoder).as_posix() for path in exported_encoder.rglob("*") if path.is_file()}
    wanted = {"onnx/model.onnx", "config.json", "tokenizer.json", "modules.json", "1_Pooling/config.json"}
    assert wanted | {"maskwright.json", "README.md", "manifest.json"} <= names
    assert "model.safetensors" not in names
    verify_folder(exported_encoder)
    spec = json.loads((exported_encoder / "maskwright.json").read_text(encoding="utf-8"))["export"]
    assert (spec["max_length"], spec["longest"], spec["opset"]) == (24, 40, 20)
    assert spec["agreement"]["outputs"]["sentence_embedding"]["largest_difference"] < 1e-4
    assert spec["agreement"]["num_texts"] >= 64
    assert [one["axes"] for one in spec["graphs"]["model"]["inputs"]] == [["batch", "sequence"]] * 3
    assert "sentence_embedding" in said_by_the_page(exported_encoder)


def test_a_program_without_torch_gives_the_numbers_of_the_library(
    encoder_folder, exported_encoder, classifier_folder, exported_classifier
):
    expected = open_embedder(encoder_folder, precision="fp32").vectors(TEXTS)
    np.testing.assert_allclose(outputs_of(exported_encoder, TEXTS), expected, atol=1e-5)
    logits = open_predictor(classifier_folder, precision="fp32").logits(TEXTS)
    np.testing.assert_allclose(outputs_of(exported_classifier, TEXTS), logits.numpy(), atol=1e-4)


@pytest.mark.slow
def test_the_command_prints_the_agreement(as_json, refused, classifier_folder, tmp_path):
    found = as_json("export", classifier_folder, "-o", tmp_path / "out", "--max-length", "20")
    assert found["format"] == "onnx" and found["max_length"] == 20
    assert found["agreement"]["outputs"]["logits"]["same_class"] == 1.0
    assert found["postprocessing"]["labels"] == ["no", "perhaps", "yes"]
    assert found["size_bytes"] == (tmp_path / "out" / "onnx" / "model.onnx").stat().st_size
    refused("already exists", "export", classifier_folder, "-o", tmp_path / "out", "--quiet")


@pytest.mark.slow
@pytest.mark.parametrize("head", [None, "choice"])
def test_a_torch_program_agrees_and_is_not_opened(head, tmp_path):
    small("bert-tiny", head).save(tmp_path / "model")
    found = export(tmp_path / "model", tmp_path / "out", to="torch")
    assert (found.folder / "torch" / "model.pt2").is_file() and not (found.folder / "onnx").exists()
    assert found.agreement.num_texts >= 64 and "torch.export.load" in (tmp_path / "out" / "README.md").read_text(
        "utf-8"
    )
    with pytest.raises(ModelFolderError, match="which maskwright does not open"):
        load(tmp_path / "out")


# -- what is not published ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_graph_that_differs(refused, monkeypatch, encoder_folder, tmp_path):
    def changed(network, longest):
        other = copy.deepcopy(network)
        with torch.no_grad():
            other.model.encoder.layers[1].ffn.down.weight[0, 0] += 5
        return trace(other, longest)

    monkeypatch.setattr(export_module, "trace", changed)
    refused("differs by", "export", encoder_folder, "-o", tmp_path / "out", "--quiet")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_poor_int8_graph(refused, encoder_folder, typical, tmp_path):
    words = ("--precision", "int8", "--calibrate-on", typical, "--min-cosine", "0.99999", "--quiet")
    refused("0.99999", "export", encoder_folder, "-o", tmp_path / "out", *words)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("head", "declared", "kind", "said"),
    [
        (None, {"late": LateInteraction()}, "error", "vector for each token"),
        (None, {"prompts": {"q": "q: "}, "default_prompt": "q", "include_prompt": False}, "error", "prompt"),
        pytest.param("mlm", {"sparse": "max"}, "warning", "logits of the vocabulary", marks=pytest.mark.slow),
    ],
)
def test_what_a_graph_does_not_give_is_told(maskwright, tmp_path, head, declared, kind, said):
    model = small("bert-tiny", head)
    model.sentence = SentenceSettings(**declared)
    model.save(tmp_path / "m")
    code, _, err = maskwright("export", tmp_path / "m", "-o", tmp_path / "out")
    assert code == (2 if kind == "error" else 0) and f"{kind}: " in err and said in " ".join(err.split())
    assert (tmp_path / "out").exists() == (kind == "warning")


@pytest.mark.parametrize(
    ("name", "head", "changes", "said"),
    [
        ("bert-tiny", "tagging-crf", {"num_attention_heads": 2}, "the CRF"),
        ("bilstm-small", None, {}, "a recurrent network"),
        ("seq2seq-small", "seq2seq", {"num_decoder_layers": 1}, "a recurrent network"),
        ("bert-tiny", "classification", {"num_attention_heads": 2, "top_layers": 1}, "top_layers"),
        ("bert-tiny", None, {"num_attention_heads": 2, "attention": "big_bird", "block_size": 4}, "sparse pattern"),
        ("transformer-mini", None, {"num_attention_heads": 2, "num_decoder_layers": 1}, "without a head"),
    ],
)
def test_a_network_without_a_graph(name, head, changes, said):
    model = build(preset(name, **SMALL | changes), head, labels=["O", "B-A"] if head == "tagging-crf" else None)
    with pytest.raises(ModelFolderError, match=said):
        networks_of(model)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--max-length", "41"], "at most 40"),
        (["--opset", "9"], "18 to 23"),
        (["--precision", "bf16"], "--to onnx has no bf16 graph"),
        (["--to", "torch", "--precision", "fp16"], "use --precision fp32"),
        (["--precision", "int8"], "pass a file with --calibrate-on"),
        (["--precision", "int8", "--calibrate-on", "few.txt"], "at least 64"),
        (["--calibrate-on", "few.txt"], "goes with --precision int8"),
        (["--min-cosine", "1.5"], "min_cosine"),
    ],
)
def test_settings_that_do_not_go_together(refused, encoder_folder, tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "few.txt").write_text("a text\nanother", encoding="utf-8")
    refused(said, "export", encoder_folder, "-o", "out", "--quiet", *words)
    assert not (tmp_path / "out").exists()


def test_the_source_is_not_overwritten(refused, encoder_folder):
    refused("is the model itself", "export", encoder_folder, "-o", encoder_folder, "--replace", "--quiet")


def test_a_missing_extra_is_named(refused, monkeypatch, encoder_folder, tmp_path):
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    refused("[export]", "export", encoder_folder, "-o", tmp_path / "out", "--quiet")
    assert not (tmp_path / "out").exists()


# -- other precisions --------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.compatibility(
    "onnxruntime 1.31.1",
    theirs="A dynamically quantized graph has one range for a whole call: padding and other texts change a result",
    ours="Maskwright and the script in the README run one text per call",
)
def test_int8_leaves_out_the_second_products_where_that_is_needed(typical, tmp_path):
    model = small("bert-tiny", hidden_size=32, intermediate_size=64)
    model.sentence = SentenceSettings("mean", True, 24)
    with torch.no_grad():  # one of the feed-forward units has very large activations, and small weights after them
        for layer in model.encoder.layers:
            layer.ffn.up.weight[0] *= 300
            layer.ffn.down.weight[:, 0] /= 300
    model.save(tmp_path / "model")
    settings = {"precision": "int8", "calibrate_on": typical, "min_cosine": 0.95}
    found = export(tmp_path / "model", tmp_path / "out", **settings)
    quantization = found.spec["quantization"]
    assert (quantization["quantizer"], quantization["activations"]) == ("onnxruntime", "dynamic")
    # ONNX Runtime's products overflow on CPUs without VNNI, and then the first products may be left out, too.
    left_out = [["ffn.down"]] if largest_weight() == 127 else [["ffn.down"], ["ffn.down", "ffn.up"]]
    assert quantization["products_in_float32"] in left_out
    assert found.spec["agreement"]["outputs"]["sentence_embedding"]["min_cosine"] >= 0.95
    assert sorted(path.name for path in (found.folder / "onnx").iterdir()) == ["model_quantized.onnx"]
    assert found.spec["size_bytes"] < found.spec["float32_size_bytes"]
    page = (found.folder / "README.md").read_text(encoding="utf-8")
    assert "As float32 it is" in page and "not quantized: ffn.down" in page and "one text per call" in page
    assert cosines(found.folder, tmp_path / "model").min() > 0.9
    encoder = open_embedder(found.folder)
    alone = np.concatenate([encoder.vectors([text]) for text in TEXTS])
    np.testing.assert_array_equal(encoder.vectors(TEXTS), alone)  # no text depends on its neighbors
    assert said_by_the_page(found.folder).count("'sentence_embedding': (1, 32)") == 2  # of one call each


@pytest.mark.slow
def test_half_precision_has_the_file_of_transformers_js(encoder_folder, tmp_path):
    found = export(encoder_folder, tmp_path / "out", precision="fp16")
    assert [path.name for path in (found.folder / "onnx").iterdir()] == ["model_fp16.onnx"]
    assert found.spec["precision"] == "fp16" and "quantization" not in found.spec
    assert cosines(found.folder, encoder_folder).min() > 0.999


def one_text(length):
    ids = np.random.default_rng(length).integers(5, 40, (1, length))
    return {"input_ids": ids, "attention_mask": np.ones_like(ids)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "longest"), [("mpnet-base", 140), ("modernbert-base", 2200), ("distilbert-base", 1200)]
)
@pytest.mark.compatibility(
    "onnxruntime 1.31.1",
    theirs="convert_float_to_float16 rounds the logarithm of distance buckets and the angles of rotary positions",
    ours="Buckets and angles are tables in the graph, so float16 changes no position at any length",
)
def test_half_precision_is_as_close_at_every_distance(name, longest, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime", reason="the extra export is not installed")
    model = small(name, num_hidden_layers=1, max_position_embeddings=longest)
    with torch.no_grad():
        if name == "mpnet-base":
            model.encoder.relative.weight.mul_(5)
        if name == "distilbert-base":
            model.encoder.layers[0].ffn_norm.bias.fill_(80)  # the sum over a long text is beyond float16
    (network,) = networks_of(model)
    files = write_onnx(trace(network, longest), network, tmp_path, 20)
    paths = [*files, *to_half(tmp_path, files, tmp_path, (), ())]
    full, half = (onnxruntime.InferenceSession(tmp_path / path) for path in paths)
    names, largest = ["last_hidden_state", "sentence_embedding"], {}
    for length in (8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 128, 129, 140, 600, 1200, 2200):
        if length <= longest:
            pairs = zip(full.run(names, one_text(length)), half.run(names, one_text(length)), strict=True)
            largest[length] = max(np.abs(a - b).max() / np.abs(a).max() for a, b in pairs)
    assert max(largest.values()) < 4e-3, largest


@pytest.mark.slow
@pytest.mark.compatibility(
    "openvino 2026.4.1",
    theirs="save_model rounds rotary frequencies to float16: cosine similarities of long texts are wrong by 1",
    ours="The rotation angles are tables in the graph, so only they are rounded",
)
def test_an_openvino_graph_in_half_precision_keeps_rotary_positions(tmp_path):
    openvino = pytest.importorskip("openvino", reason="openvino is not installed")
    longest = 2200
    (network,) = networks_of(small("modernbert-base", num_hidden_layers=1, max_position_embeddings=longest))
    files = write_openvino(trace(network, longest), network, tmp_path, 20)
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
@pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16", "int8"])
def test_an_openvino_graph_of_every_precision(precision, encoder_folder, typical, tmp_path):
    pytest.importorskip("openvino", reason="openvino is not installed")
    if precision == "int8" and largest_weight() < 127:
        pytest.skip("int8 products of OpenVINO overflow on CPUs without VNNI")
    settings = {}
    if precision == "int8":
        pytest.importorskip("nncf", reason="nncf is not installed")
        settings = {"calibrate_on": typical, "min_cosine": 0.9}
    found = export(encoder_folder, tmp_path / "out", to="openvino", precision=precision, **settings)
    assert found.agreement.runtime.startswith("OpenVINO") and cosines(found.folder, encoder_folder).min() > 0.9
    assert (found.folder / "openvino_model.bin").is_file() and not (found.folder / "onnx").exists()
    hint = '"INFERENCE_PRECISION_HINT": "bf16"' if precision == "bf16" else '"INFERENCE_PRECISION_HINT": "f32"'
    assert hint in (found.folder / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_the_real_minilm(precision, tmp_path):
    lines = [line for page in sorted(PAGES.glob("*.md")) for line in page.read_text(encoding="utf-8").split("\n")]
    texts = [line for line in lines if line[:1].isalpha() and len(line.split()) > 6][:64]
    (tmp_path / "typical.txt").write_text("\n".join(texts), encoding="utf-8")
    if precision == "fp32":
        found = export(minilm_folder(), tmp_path / "out")
        assert cosines(found.folder, minilm_folder()).min() > 1 - 1e-5
        return
    settings = {"calibrate_on": tmp_path / "typical.txt", "min_cosine": 0.95}
    found = export(minilm_folder(), tmp_path / "out", precision="int8", **settings)
    assert found.spec["agreement"]["outputs"]["sentence_embedding"]["min_cosine"] >= 0.95
    assert found.spec["size_bytes"] < 0.45 * found.spec["float32_size_bytes"]
    assert cosines(found.folder, minilm_folder()).min() > 0.9
