"""Static word embeddings: a network without layers, trained embeddings, and its uses."""

import builtins
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import maskwright as mw
from maskwright.core import storage
from maskwright.core.errors import ConfigError, InputError, MissingExtraError, RunError
from maskwright.data.batch import Batch
from maskwright.hub.folders import load_model
from maskwright.hub.static_vectors import bag_of_vectors
from maskwright.text.tokenizers.tokenizer import Tokenizer
from maskwright.train.pretraining.config import StaticConfig
from maskwright.train.pretraining.static_embeddings import train_static_vectors


def tokenizer():
    return Tokenizer.train_from_iterator(["the cat sees a dog", "a red house"] * 3, kind="word", vocab_size=40)


def bag():
    words = tokenizer()
    table = np.random.default_rng(0).normal(size=(words.vocab_size, 6)).astype(np.float32)
    return bag_of_vectors(torch.from_numpy(table), words)


def test_a_word_has_one_vector_whatever_stands_around_it():
    model = bag()
    found = model.encode(Batch.from_sequences([[7, 8, 9], [9, 7]]), hidden_states=True)
    assert len(found.hidden_states) == 1
    torch.testing.assert_close(found.hidden, model.word_embeddings[[7, 8, 9, 9, 7]])


def test_a_folder_brings_the_vectors_back_and_texts_are_their_means(tmp_path):
    model = bag()
    model.save(tmp_path / "v")
    loaded, report = load_model(tmp_path / "v")
    assert not report.new and not report.unused
    assert torch.equal(loaded.word_embeddings, model.word_embeddings)
    vectors = mw.Embedder(tmp_path / "v", precision="fp32").fit([]).transform(["the cat", "cat the"])
    np.testing.assert_allclose(vectors[0], vectors[1], atol=1e-6)
    ids = tokenizer()("the cat").ids
    np.testing.assert_allclose(vectors[0], model.word_embeddings[ids].mean(0).detach(), atol=1e-6)


def test_without_the_library_the_extra_is_named(tmp_path, monkeypatch):
    original = builtins.__import__

    def without(name, *others, **more):
        if name.startswith("gensim"):
            raise ImportError(name)
        return original(name, *others, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=r"maskwright\[vectors\]"):
        train_static_vectors(StaticConfig(("a.txt",), tmp_path / "v"))
    assert not (tmp_path / "v").exists()


def pairs(path):
    """Text in which words of one kind occur in the same contexts."""
    rng = random.Random(0)
    animals, places = ["cat", "dog", "bird", "fox"], ["house", "river", "tree", "road"]
    lines = [f"the {rng.choice(animals)} eats and sleeps near the {rng.choice(places)} at night" for _ in range(600)]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("method", ["skip-gram", pytest.param("cbow", marks=pytest.mark.slow)])
def test_words_of_one_kind_have_near_vectors(method, tmp_path):
    pytest.importorskip("gensim", reason="training vectors needs the extra 'vectors'")
    config = StaticConfig((str(pairs(tmp_path / "t.txt")),), tmp_path / "v", method, size=16, window=2, epochs=20)
    result = train_static_vectors(config)
    model, _ = load_model(result.model)
    words = model.tokenizer

    def cosine(one, other):
        rows = [model.word_embeddings[words.token_to_id(word)] for word in (one, other)]
        return float(torch.cosine_similarity(*rows, dim=0))

    assert cosine("cat", "dog") > cosine("cat", "river")
    assert result.unknown == 0 and result.words == 15
    assert result.verdict.level == "good" and result.verdict.score > 0.515
    assert storage.read_json(result.model / "maskwright.json")["training"]["method"] == method
    with pytest.raises(RunError):  # before the text is read
        train_static_vectors(replace(config, corpus=("nowhere.txt",)))
    with pytest.raises(RunError, match="is not replaced"):  # a folder of texts is not a model
        train_static_vectors(replace(config, output=tmp_path), replace_folder=True)
    assert (tmp_path / "t.txt").exists()
    again = train_static_vectors(config, replace_folder=True)
    assert torch.equal(load_model(again.model)[0].word_embeddings, model.word_embeddings)


@pytest.mark.parametrize("setting", ["size", "window"])
def test_sizes_that_no_machine_holds_are_refused(setting):
    with pytest.raises(ConfigError, match=f"{setting} is 99999999999; it must be at most"):
        StaticConfig(("a.txt",), Path("v"), **{setting: 99_999_999_999})


def test_a_text_without_frequent_words_is_refused(tmp_path):
    pytest.importorskip("gensim", reason="training vectors needs the extra 'vectors'")
    (tmp_path / "t.txt").write_text("one two three\n")
    with pytest.raises(InputError):
        train_static_vectors(StaticConfig((str(tmp_path / "t.txt"),), tmp_path / "v"))
