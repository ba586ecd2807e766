"""Sentence-transformers folders: the network, its pooling and its length are found, and kept on saving."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from maskwright.api import open_embedder
from maskwright.core.errors import InputError, ModelFolderError
from maskwright.hub.folders import load_model
from maskwright.hub.sentence import SentenceSettings, declaration_files, declared_by
from maskwright.models.build import build
from maskwright.models.presets import preset
from maskwright.text.tokenizers.tokenizer import Tokenizer

TEXTS = ["a small text", "another one, with more words in it", "one"]
FAMILIES = ["bert-tiny", "roberta-base", "distilbert-base", "albert-base", "electra-base", "mpnet-base"]


DECLARED = SentenceSettings("mean", True, 30)


def folder_of(tmp_path, name="mpnet-base", declared=DECLARED, below=""):
    """A folder as sentence-transformers writes it, with the network in itself or below."""
    tokenizer = Tokenizer.train_from_iterator(TEXTS * 3, vocab_size=90)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
    embedding_size = 8 if name.startswith("albert") else None
    model = build(preset(name, vocab_size=100, embedding_size=embedding_size, initializer_range=0.3, **sizes))
    model.tokenizer = tokenizer
    folder = tmp_path / "st"
    model.save(folder / below if below else folder)
    for unwanted in ("manifest.json", "maskwright.json"):
        (folder / below / unwanted).unlink()
    for path, content in declaration_files(declared, 16, 512).items():
        target = folder / (below if path.startswith("sentence_bert") else "") / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if path == "modules.json":
            content[0]["path"] = below
        target.write_text(json.dumps(content))
    return folder


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("pooling", ["cls", "mean", "max"])
def test_vectors_are_those_that_transformers_and_the_declaration_give(name, pooling, tmp_path):
    import transformers

    folder = folder_of(tmp_path, name, SentenceSettings(pooling, True, 30))
    found = open_embedder(folder, device="cpu", precision="fp32").vectors(TEXTS)
    network = transformers.AutoModel.from_pretrained(folder).eval()
    tokenizer = Tokenizer.load(folder)
    expected = []
    for text in TEXTS:
        with torch.no_grad():
            hidden = network(torch.tensor([tokenizer(text, max_length=30).ids])).last_hidden_state[0]
        pooled = {"cls": hidden[0], "mean": hidden.mean(0), "max": hidden.amax(0)}[pooling]
        expected.append(torch.nn.functional.normalize(pooled, dim=-1).numpy())
    assert np.abs(found - np.stack(expected)).max() < 1e-5


@pytest.mark.parametrize("head", ["mlm", "pretraining"])
def test_a_model_that_fills_masks_may_declare_sentence_embeddings(head, tmp_path):
    model = build(load_model(folder_of(tmp_path, "bert-tiny"))[0].config, head)
    model.tokenizer, model.sentence = Tokenizer.load(tmp_path / "st"), DECLARED
    model.save(tmp_path / "saved")
    again, report = load_model(tmp_path / "saved")
    assert (again.head_name, again.sentence) == (head, DECLARED) and not report.new
    vectors = open_embedder(tmp_path / "saved", device="cpu").vectors(TEXTS)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-3)  # as declared
    again.save(tmp_path / "twice")
    assert declared_by(tmp_path / "twice") == DECLARED
    assert load_model(tmp_path / "saved", "classification", labels=2)[0].sentence is None


@pytest.mark.parametrize("below", ["", "0_Transformer"])
def test_the_declaration_survives_saving(below, tmp_path):
    declared = SentenceSettings("cls", True, 20)
    folder = folder_of(tmp_path, declared=declared, below=below)
    model, report = load_model(folder)
    assert model.sentence == declared and not report.new and not report.unused
    model.save(tmp_path / "saved")
    assert declared_by(tmp_path / "saved") == declared
    before, after = (open_embedder(one, device="cpu").vectors(TEXTS) for one in (folder, tmp_path / "saved"))
    assert np.array_equal(before, after)


def test_a_head_makes_no_claim_about_vectors(tmp_path):
    folder = folder_of(tmp_path)
    model, _ = load_model(folder, head="classification", labels=["a", "b"])
    model.save(tmp_path / "saved")
    assert model.sentence is None and not (tmp_path / "saved/modules.json").exists()


def test_a_network_outside_the_folder_is_not_read(tmp_path):
    folder = folder_of(tmp_path)
    (folder / "modules.json").write_text(json.dumps([{"type": "x.Transformer", "path": "../elsewhere"}]))
    with pytest.raises(InputError, match="is outside"):
        load_model(folder)


def test_a_prompt_before_every_text_is_refused(tmp_path):
    folder = folder_of(tmp_path)
    (folder / "config_sentence_transformers.json").write_text(json.dumps({"default_prompt_name": "query"}))
    with pytest.raises(ModelFolderError, match="prompt 'query'"):
        load_model(folder)
