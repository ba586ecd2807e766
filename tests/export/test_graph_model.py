"""Exported folders give the numbers of the library through its own commands, functions and estimators."""

from __future__ import annotations

import copy
import json
import shutil
import sys

import numpy as np
import pytest
import torch

import maskwright as mw
from export.small_models import ENCODERS, HEADS, small, specification_of
from inference.samples import TEXTS
from maskwright.api import open_embedder, open_predictor, search, similarity
from maskwright.core.errors import (
    ConfigError,
    CorruptFileError,
    InputError,
    MissingExtraError,
    ModelFolderError,
)
from maskwright.data.batch import Batch
from maskwright.export.agreement import TorchRuntime
from maskwright.export.cached import networks_of
from maskwright.export.graph_model import GraphModel
from maskwright.export.network import most_tokens
from maskwright.http.model_registry import LoadedModel
from maskwright.inference.fill_mask import MaskFiller, NextSentence
from maskwright.inference.kinds import kind_of
from maskwright.serve.worker import measure

FP32 = ("--precision", "fp32", "--quiet")
MASKED = ["the [MASK] sat on [MASK] mat ."]
PAIRS = [("the cat sat", "on the mat ."), ("a", "dogs chase cats in the garden"), ("rain fell", "a")]


class CountingRuntime(TorchRuntime):
    """A graph that torch runs. rows: of each batch that it ran."""

    def __init__(self, network) -> None:
        super().__init__(network)
        self.rows: list[int] = []

    def run(self, inputs):
        self.rows.append(len(inputs["input_ids"]))
        return super().run(inputs)


def graph_of(model, **changes) -> GraphModel:
    """The graph of a model."""
    (network,) = networks_of(model)
    spec = specification_of(model, [network], most_tokens(model.config)) | changes
    labels = model.labels or None
    graph = GraphModel(model.config, model.head_name, labels, model.problem_type, spec, CountingRuntime(network))
    graph.tokenizer = model.tokenizer
    return graph.train(False)


def pack(model, texts=TEXTS) -> Batch:
    """Texts in their own order, longest and shortest side by side."""
    ids, types = model.tokenizer.encode_ids(texts, 24)
    return Batch.from_sequences(ids, types)


@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize("head", HEADS)
def test_every_head_of_every_family_gives_the_numbers_of_the_packed_path(name, head):
    try:
        model = small(name, head)
    except ConfigError:
        pytest.skip(f"{name} has no head {head}")
    graph, batch = graph_of(model), pack(model)
    with torch.inference_mode():
        if head is None:
            expected, found = model.encode(batch).hidden, graph.encode(batch).hidden
        elif head == "mlm":
            where = batch.last_tokens
            expected, found = model.token_logits(batch, where), graph.token_logits(batch, where)
        elif head in ("nsp", "pretraining"):
            expected, found = model.pair_logits(batch), graph.pair_logits(batch)
        else:
            expected, found = model.logits(batch), graph.logits(batch)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("head", [None, "classification", "tagging", "qa", "mlm", "pretraining"])
def test_the_padded_call_has_the_fields_of_the_model(head):
    model = small("bert-tiny", head)
    ids = torch.randint(5, 100, (3, 7), generator=torch.Generator().manual_seed(0))
    mask = torch.tensor([[1] * 7, [1] * 4 + [0] * 3, [1] * 5 + [0] * 2])
    graph = graph_of(model)
    with torch.inference_mode():
        expected, found = model(ids, attention_mask=mask), graph(ids, attention_mask=mask)
    for name in set(found.keys()) - (set() if head is None else {"last_hidden_state"}):
        keep = mask.bool() if found[name].shape[:2] == mask.shape else slice(None)
        torch.testing.assert_close(found[name][keep], expected[name][keep], atol=1e-5, rtol=1e-4)
    with pytest.raises(InputError, match="padding at the right only"):
        graph(ids, attention_mask=mask.flip(1))


def test_choices_keep_their_questions():
    model = small("bert-tiny", "choice")
    ids = torch.randint(5, 100, (2, 3, 6), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        torch.testing.assert_close(graph_of(model)(ids).logits, model(ids).logits, atol=1e-5, rtol=1e-4)


def test_batches_have_little_padding_and_a_dynamic_graph_has_none():
    model = small("bert-tiny")
    graph, batch = graph_of(model), pack(model)
    graph.run(batch)
    assert 1 < len(graph.runtime.rows) < len(TEXTS)
    dynamic = graph_of(model, quantization={"activations": "dynamic"})
    dynamic.run(batch)
    assert dynamic.runtime.rows == [1] * len(TEXTS)


def test_masks_and_pairs_are_predicted_as_by_the_library():
    model = small("bert-tiny", "pretraining")
    graph = graph_of(model)
    for one, two in zip(MaskFiller(graph).fill(MASKED), MaskFiller(model).fill(MASKED), strict=True):
        assert one.filled == two.filled and len(one.masks) == 2
        assert one.masks[0].candidates[0].score == pytest.approx(two.masks[0].candidates[0].score, abs=1e-5)
    found, expected = NextSentence(graph).probabilities(PAIRS), NextSentence(model).probabilities(PAIRS)
    np.testing.assert_allclose(found, expected, atol=1e-6)


# -- real graphs -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def encoders(encoder_folder, exported_encoder):
    """The text encoders of a model folder and of its graph."""
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


def test_functions_and_estimators_open_an_exported_folder(
    encoder_folder, exported_encoder, exported_classifier, tmp_path
):
    texts = [text for text in TEXTS if text]
    expected = similarity(encoder_folder, texts, precision="fp32").matrix
    np.testing.assert_allclose(similarity(exported_encoder, texts).matrix, expected, atol=1e-5)
    (tmp_path / "passages.txt").write_text("\n".join(texts), encoding="utf-8")
    found, known = (
        search(folder, tmp_path / "passages.txt", texts[:2], top_k=3, precision="fp32")
        for folder in (exported_encoder, encoder_folder)
    )
    assert [[hit.passage for hit in hits] for hits in found] == [[hit.passage for hit in hits] for hits in known]
    np.testing.assert_allclose(
        mw.Embedder(mw.load(exported_encoder)).transform(texts),
        mw.Embedder(encoder_folder, normalize=False, precision="fp32", max_length=40).transform(texts),
        atol=1e-5,
    )
    classifier = mw.TextClassifier.load(exported_classifier)
    assert set(classifier.predict(texts)) <= {"no", "perhaps", "yes"}


def test_an_exported_classifier_gives_the_predictions_of_the_library(classifier_folder, exported_classifier):
    model, graph = open_predictor(classifier_folder, precision="fp32"), open_predictor(exported_classifier)
    for texts in (TEXTS, PAIRS):
        torch.testing.assert_close(graph.logits(texts), model.logits(texts), atol=1e-4, rtol=1e-4)
        assert [one["label"] for one in graph.predict(texts)] == [one["label"] for one in model.predict(texts)]


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
    assert kind_of(graph_of(small("gpt2", "clm"))).abilities == {"generate"}


def test_exporting_and_describing_an_exported_folder(maskwright, exported_encoder, tmp_path):
    code, _, err = maskwright("export", exported_encoder, "-o", tmp_path / "out", "--quiet")
    assert code == 2 and "is an exported graph already" in err
    code, out, _ = maskwright("doctor", "model", exported_encoder, "--json")
    assert code == 0 and json.loads(out)["head"] is None


def test_a_changed_graph_is_not_opened(exported_encoder, tmp_path):
    folder = tmp_path / "changed"
    shutil.copytree(exported_encoder, folder)
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


@pytest.mark.parametrize(
    "entry",
    [{"format": "onnx"}, [], {"format": "onnx", "precision": "fp32", "graphs": {"model": {"file": "../model.onnx"}}}],
)
def test_a_damaged_description_is_a_sentence(exported_encoder, tmp_path, entry):
    from maskwright.core.storage import accept

    folder = tmp_path / "damaged"
    shutil.copytree(exported_encoder, folder)
    facts = json.loads((folder / "maskwright.json").read_text(encoding="utf-8"))
    (folder / "maskwright.json").write_text(json.dumps(facts | {"export": entry}), encoding="utf-8")
    accept(folder)
    with pytest.raises((ModelFolderError, InputError)):
        mw.load(folder)


def test_a_missing_runtime_names_the_extra(exported_encoder, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'maskwright\[export\]'"):
        mw.load(exported_encoder)
