"""Folders beside those of sentence encoders: cross-encoders, and static token vectors."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tokenizers
import torch
from safetensors.torch import save_file
from tokenizers import models, pre_tokenizers, processors

from hub.folder_tools import CONFIG, foreign, make
from maskwright import api
from maskwright.core.errors import ConfigError, ModelFolderError
from maskwright.hub.folders import load_model
from maskwright.inference.sparse import SparseEncoder
from maskwright.models.build import build
from maskwright.models.presets import preset
from maskwright.text.tokenizers.tokenizer import Tokenizer

PAIRS = [("a small text", "another one"), ("one", "a text")]
IDENTITY, SIGMOID = "torch.nn.modules.linear.Identity", "torch.nn.modules.activation.Sigmoid"


@pytest.mark.compatibility(
    "sentence-transformers 6.2.0",
    theirs="A CrossEncoder with one output applies the activation that its folder stores, else the sigmoid.",
    ours="`predict` gives the number before any activation (a regression model); `/rerank` applies the stored one.",
)
@pytest.mark.parametrize("activation", [IDENTITY, SIGMOID, None])
@pytest.mark.parametrize("version", [4, 6])
def test_a_cross_encoder_with_one_output_gives_its_logit(version, activation, tmp_path):
    import transformers

    model = make("regression", CONFIG)
    model.tokenizer = Tokenizer.train_from_iterator([text for pair in PAIRS for text in pair] * 3, vocab_size=60)
    model.save(tmp_path / "m")
    stored = {} if activation is None else {"sentence_transformers": {"activation_fn": activation, "version": "6.2.0"}}
    folder = foreign(tmp_path / "m", settings={"problem_type": None, **stored})
    if version == 6:  # it writes modules.json for cross-encoders too
        module = {
            "idx": 0,
            "name": "0",
            "path": "",
            "type": "sentence_transformers.base.modules.transformer.Transformer",
        }
        (folder / "modules.json").write_text(json.dumps([module]))
        own = {"model_type": "CrossEncoder", "prompts": {}, "default_prompt_name": None, "activation_fn": activation}
        (folder / "config_sentence_transformers.json").write_text(json.dumps(own))
        (folder / "sentence_bert_config.json").write_text('{"transformer_task": "sequence-classification"}')
    predictor = api.open_predictor(folder, device="cpu", precision="fp32")
    found = [one["score"] for one in predictor.predict(PAIRS)]
    network = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    for pair, value in zip(PAIRS, found, strict=True):
        encoding = predictor.tokenizer(*pair)
        with torch.no_grad():
            wanted = network(torch.tensor([encoding.ids]), token_type_ids=torch.tensor([encoding.type_ids])).logits
        assert np.isclose(value, float(wanted), atol=1e-5)


WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "small", "text", "another", "one"]
TABLES = ("static embedding", "dense after it", "model2vec", "model2vec alone")


def static_folder(folder, kind):
    """A folder of a kind of TABLES, and the vector of each token."""
    own = tokenizers.Tokenizer(models.WordPiece({word: row for row, word in enumerate(WORDS)}, unk_token="[UNK]"))
    own.pre_tokenizer = pre_tokenizers.Whitespace()
    frame = [("[CLS]", 2), ("[SEP]", 3)]
    own.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=frame)
    own.save(str(folder / "tokenizer.json"))
    torch.manual_seed(1)
    rows, weights, mapping = torch.randn(len(WORDS), 12), torch.rand(len(WORDS)), torch.arange(len(WORDS)) % 5
    modules = [("StaticEmbedding", ".")]
    if kind.startswith("model2vec"):
        save_file(
            {"embeddings": rows[:5].clone(), "mapping": mapping, "weights": weights}, folder / "model.safetensors"
        )
        config = {"model_type": "model2vec", "architectures": ["StaticModel"], "normalize": True, "hidden_dim": 12}
        (folder / "config.json").write_text(json.dumps(config))
        rows, modules = rows[mapping] * weights[:, None], [*modules, ("Normalize", "1_Normalize")]
    else:
        save_file({"embedding.weight": rows}, folder / "model.safetensors")
    if kind == "dense after it":
        (folder / "1_Dense").mkdir()
        config = {"in_features": 12, "out_features": 5, "bias": False}
        (folder / "1_Dense/config.json").write_text(json.dumps(config))
        save_file({"linear.weight": torch.ones(5, 12)}, folder / "1_Dense/model.safetensors")
        modules.append(("Dense", "1_Dense"))
    if kind != "model2vec alone":
        names = [{"type": f"sentence_transformers.models.{kind}", "path": path} for kind, path in modules]
        (folder / "modules.json").write_text(json.dumps(names))
    return rows


@pytest.mark.compatibility(
    "model2vec 0.10.0",
    theirs="A folder is a table of token vectors with optional mapping and weights, without a network. The package "
    "leaves unknown words out of the mean, sentence-transformers counts them.",
    ours="Opens as a network without layers, as a StaticEmbedding does, with the vectors of sentence-transformers.",
)
@pytest.mark.parametrize("kind", TABLES)
def test_static_token_vectors_are_the_mean_of_the_tokens(kind, tmp_path):
    rows = static_folder(tmp_path, kind)
    texts = {"a small text": [4, 5, 6], "one unknown": [8, 1], "another one one": [7, 8, 8]}
    wanted = torch.stack([rows[ids].mean(0) for ids in texts.values()])
    if kind == "dense after it":
        wanted = torch.tanh(wanted.sum(1, keepdim=True).expand(-1, 5))
    if kind.startswith("model2vec"):
        wanted = torch.nn.functional.normalize(wanted, dim=-1)
    encoder = api.open_embedder(tmp_path, device="cpu", precision="fp32")
    found = encoder.vectors([*texts, ""])
    assert np.abs(found[:3] - wanted.numpy()).max() < 1e-6 and not (kind != "dense after it" and found[3].any())
    load_model(tmp_path)[0].save(tmp_path / "saved")
    again = api.open_embedder(tmp_path / "saved", device="cpu", precision="fp32").vectors([*texts, ""])
    assert np.array_equal(found, again)


def test_a_table_of_another_tokenizer_is_refused(tmp_path):
    static_folder(tmp_path, "static embedding")
    save_file({"embedding.weight": torch.rand(4, 12)}, tmp_path / "model.safetensors")
    with pytest.raises(ModelFolderError, match="vectors for 4 tokens"):
        load_model(tmp_path)
    with pytest.raises(ConfigError, match="no head"):
        load_model(tmp_path, "mlm")


SPLADE = {("max", "relu"): 1, ("sum", "relu"): 1, ("max", "log1p_relu"): 2, ("sum", "log1p_relu"): 2}
SPARSE_TEXTS = ["a small text", "another one one", "one"]


def splade_folder(folder, strategy, activation):
    """A sparse encoder as sentence-transformers 6.2 writes one, and its logits, [tokens, vocab] of each text."""
    model = build(preset("bert-tiny", vocab_size=60, initializer_range=0.5, hidden_size=16), "mlm")
    model.tokenizer = Tokenizer.train_from_iterator(SPARSE_TEXTS * 4, vocab_size=60)
    model.save(folder)
    for unwanted in ("manifest.json", "maskwright.json"):
        (folder / unwanted).unlink()
    kinds = {"": "base.modules.transformer.Transformer", "1_SpladePooling": "sparse_encoder.modules.SpladePooling"}
    modules = [{"type": f"sentence_transformers.{kind}", "path": path} for path, kind in kinds.items()]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "config_sentence_transformers.json").write_text(json.dumps({"model_type": "SparseEncoder"}))
    (folder / "1_SpladePooling").mkdir()
    own = {"pooling_strategy": strategy, "activation_function": activation, "embedding_dimension": None}
    (folder / "1_SpladePooling/config.json").write_text(json.dumps(own))
    with torch.no_grad():
        return [model.eval()(torch.tensor([model.tokenizer(text).ids])).logits[0] for text in SPARSE_TEXTS]


@pytest.mark.compatibility(
    "sentence-transformers 6.2.0",
    theirs="A SparseEncoder gives log(1 + relu) of the logits, once or twice, its maximum or sum over the tokens.",
    ours="`embed --sparse` and `/embed_sparse` give the same weights to 1e-5; saving keeps the folder readable there.",
)
@pytest.mark.parametrize(("strategy", "activation"), SPLADE)
def test_sparse_embeddings_are_those_of_their_formula(strategy, activation, tmp_path):
    logits = splade_folder(tmp_path, strategy, activation)
    weights = [one.relu().log1p() for one in logits]
    weights = [one.log1p() for one in weights] if activation == "log1p_relu" else weights
    wanted = torch.stack([one.amax(0) if strategy == "max" else one.sum(0) for one in weights]).numpy()
    encoder = api.open_sparse_encoder(tmp_path, device="cpu", precision="fp32")
    found = encoder.vectors(SPARSE_TEXTS)
    assert found.shape == (3, encoder.size) and np.abs(found.toarray() - wanted).max() < 1e-5
    token, weight = encoder.tokens(found[0], 1)[0]
    assert encoder.tokenizer.token_to_id(token) == wanted[0].argmax() and np.isclose(weight, wanted[0].max())
    load_model(tmp_path)[0].save(tmp_path / "saved")
    again = api.open_sparse_encoder(tmp_path / "saved", device="cpu", precision="fp32").vectors(SPARSE_TEXTS)
    assert np.array_equal(found.toarray(), again.toarray())


def test_a_sparse_encoder_makes_no_dense_vectors_without_being_asked(tmp_path):
    splade_folder(tmp_path, "max", "relu")
    with pytest.raises(ModelFolderError, match="--sparse"):
        api.open_embedder(tmp_path, device="cpu")
    assert api.open_embedder(tmp_path, pooling="mean", device="cpu").vectors(["one"]).shape == (1, 16)
    assert isinstance(api.pipeline(tmp_path, device="cpu"), SparseEncoder)
    bare = load_model(tmp_path, None)[0]
    bare.save(tmp_path / "bare")  # without the head that makes them
    assert api.open_embedder(tmp_path / "bare", device="cpu").vectors(["one"]).shape == (1, 16)
    (tmp_path / "1_SpladePooling/config.json").write_text(json.dumps({"pooling_strategy": "mean"}))
    with pytest.raises(ModelFolderError, match="pooling_strategy is 'mean'"):
        load_model(tmp_path)
