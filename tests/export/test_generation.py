"""Exported graphs that generate: causal language models and encoder-decoders, with cached keys and values."""

import json
import subprocess
import sys

import pytest
import torch

import maskwright as mw
from export.small_models import small, small_translator, specification_of
from maskwright.data.batch import Batch
from maskwright.export.agreement import TorchRuntime
from maskwright.export.cached import networks_of
from maskwright.export.config import ExportConfig
from maskwright.export.export import export_model
from maskwright.export.graph_model import GraphModel, GraphTranslator
from maskwright.http.model_registry import LoadedModel
from maskwright.inference.generate import Generation, TextGenerator
from maskwright.inference.translate import TextTranslator, TranslationSettings
from maskwright.models.decoding.rules import Rules

PROMPTS = ["the cat sat on the mat .", "dogs chase cats", "a"]
DYNAMIC = {"quantization": {"activations": "dynamic"}}
GREEDY = Generation(max_new_tokens=60, rules=Rules(greedy=True))  # beyond the 40 positions of the model
BEAMS = Generation(max_new_tokens=10, beams=3, num_results=2)


def graph_of(model, **changes):
    networks = networks_of(model)
    spec = specification_of(networks, 40) | changes
    runtimes = {network.name: TorchRuntime(network) for network in networks}
    if model.has_decoder:
        graph = GraphTranslator(model.config, spec, runtimes)
    else:
        graph = GraphModel(model.config, "clm", None, None, spec, runtimes["model"])
    graph.tokenizer = model.tokenizer
    return graph.train(False)


@pytest.mark.parametrize("changes", [{}, DYNAMIC])
@pytest.mark.parametrize("settings", [GREEDY, BEAMS, Generation(max_new_tokens=6, num_results=2)])
def test_a_causal_graph_continues_as_the_library(settings, changes):
    model = small("gpt2", "clm")
    found = TextGenerator(graph_of(model, **changes)).generate(PROMPTS, settings)
    expected = TextGenerator(model).generate(PROMPTS, settings)
    for one, other in zip(found, expected, strict=True):
        assert [text.text for text in one] == [text.text for text in other]
        assert [text.score for text in one] == pytest.approx([text.score for text in other], abs=1e-3)


def test_completions_and_scores_are_those_of_the_library():
    model = small("gpt2", "clm")
    graph = graph_of(model)
    completed = [[one.text for one in TextGenerator(either).complete("the cat")] for either in (graph, model)]
    assert completed[0] == completed[1]
    ids, _ = model.tokenizer.encode_ids(PROMPTS, 24)
    batch = Batch.from_sequences(ids)
    with torch.inference_mode():
        expected = model.token_logits(batch, batch.last_tokens)
    torch.testing.assert_close(graph.token_logits(batch, batch.last_tokens), expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("changes", [{}, DYNAMIC])
@pytest.mark.parametrize("beams", [1, 4])
def test_the_graphs_of_an_encoder_decoder_translate_as_the_library(beams, changes):
    model = small_translator()
    settings = TranslationSettings(beams=beams, num_results=min(beams, 2), max_new_tokens=20)
    found = TextTranslator(graph_of(model, **changes)).translate(PROMPTS, settings)
    expected = TextTranslator(model).translate(PROMPTS, settings)
    assert [[one.text for one in texts] for texts in found] == [[one.text for one in texts] for texts in expected]


# -- real graphs -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_exported_causal_model_has_the_names_of_transformers_js_and_generates(maskwright, generators):
    exported = generators[1]
    spec = json.loads((exported / "maskwright.json").read_text(encoding="utf-8"))["export"]
    inputs = {one["name"]: one["axes"] for one in spec["graphs"]["model"]["inputs"]}
    assert list(inputs)[:3] == ["input_ids", "attention_mask", "position_ids"]
    assert inputs["past_key_values.0.value"] == ["batch_size", 2, "past_sequence", 8]
    assert spec["agreement"]["outputs"]["logits"]["largest_difference"] < 1e-4
    onnx = pytest.importorskip("onnx")
    graph = onnx.load(exported / "onnx" / "model.onnx").graph
    assert [one.name for one in graph.input] == list(inputs)
    shapes = {
        one.name: [dim.dim_param or dim.dim_value for dim in one.type.tensor_type.shape.dim] for one in graph.input
    }
    assert shapes["past_key_values.0.key"] == ["batch_size", 2, "past_sequence", 8]
    texts = []
    for folder in generators:
        code, out, err = maskwright("generate", folder, "the cat", "--greedy", "--max-new-tokens", "50", "--quiet")
        assert code == 0, err
        texts.append(out)
    assert texts[0] == texts[1]
    served = LoadedModel("generator", str(exported), mw.load(exported))
    assert served.kind.can("generate") and not served.kind.can("embed")


@pytest.mark.slow
def test_the_script_in_the_readme_continues_a_text(generators):
    model, exported = generators
    script = (exported / "README.md").read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    done = subprocess.run([sys.executable, "-c", script], cwd=exported, capture_output=True, text=True, check=True)
    settings = Generation(max_new_tokens=20, rules=Rules(greedy=True))
    expected = TextGenerator(mw.load(model)).generate(["a text"], settings)[0][0].text
    assert "".join(done.stdout.split()).endswith("".join(expected.split())) and len(expected) > 20


@pytest.mark.slow
@pytest.mark.parametrize("source", ["generators", "translators"])
def test_an_openvino_model_agrees(source, request, tmp_path):
    pytest.importorskip("openvino", reason="openvino is not installed")
    config = ExportConfig(model=str(request.getfixturevalue(source)[0]), output=tmp_path / "out", to="openvino")
    found = export_model(config)
    assert found.agreement.runtime.startswith("OpenVINO") and mw.load(found.folder).generates


@pytest.mark.slow
def test_an_exported_encoder_decoder_translates(maskwright, translators):
    names = {path.name for path in (translators[1] / "onnx").iterdir()}
    assert names == {"encoder_model.onnx", "decoder_model_merged.onnx"}
    texts = []
    for folder in translators:
        code, out, err = maskwright("translate", folder, *PROMPTS, "--quiet")
        assert code == 0, err
        texts.append(out)
    assert texts[0] == texts[1]
    page = (translators[1] / "README.md").read_text(encoding="utf-8")
    assert "decoder_model_merged.onnx" in page and "`past_key_values.N.decoder.key` float32" in page


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--to", "torch"], "no graph with a cache"),
        (
            ["--to", "openvino", "--precision", "int8", "--calibrate-on", "texts.txt"],
            "no int8 graph for text generation",
        ),
    ],
)
def test_what_a_format_does_not_have_is_a_sentence(refused, tmp_path, words, said, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small("gpt2", "clm").save(tmp_path / "model")
    (tmp_path / "texts.txt").write_text("a text\n" * 64, encoding="utf-8")
    refused(said, "export", tmp_path / "model", "-o", tmp_path / "out", "--quiet", *words)
    assert not (tmp_path / "out").exists()
