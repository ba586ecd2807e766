"""Folders beside those of sentence encoders: cross-encoders, and static token vectors."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from hub.folder_tools import CONFIG, foreign, make
from maskwright import api
from maskwright.core.errors import ModelFolderError
from maskwright.hub.folders import load_model
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


@pytest.mark.compatibility(
    "model2vec 0.10.0",
    theirs="A folder is a table of token vectors with optional mapping and weights, without a network.",
    ours="Refused with a sentence that says so, as is a StaticEmbedding folder of sentence-transformers.",
)
@pytest.mark.parametrize("kind", ["model2vec", "static embedding"])
def test_static_token_vectors_are_named(kind, tmp_path):
    config = {"model_type": "model2vec", "architectures": ["StaticModel"], "normalize": True, "hidden_dim": 8}
    modules = [{"idx": 0, "name": "0", "path": ".", "type": "sentence_transformers.models.StaticEmbedding"}]
    (tmp_path / "config.json").write_text(json.dumps(config))
    if kind == "static embedding":
        (tmp_path / "config.json").unlink()
        (tmp_path / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(ModelFolderError, match=f"{tmp_path.name} is a table of static token vectors"):
        load_model(tmp_path)
