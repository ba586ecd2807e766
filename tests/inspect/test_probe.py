"""Probes: a planted property is found in its layer and nowhere else, memory is told apart, and numbers by hand."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from inference.samples import TEXTS, tiny
from maskwright.core.errors import ConfigError, InputError
from maskwright.inference.probing import (
    LabeledVectors,
    control_labels,
    embed_labeled,
    fit_and_score,
    probe_vectors,
)
from maskwright.inspect import probe
from maskwright.text.readers.tables import Row
from maskwright.text.words import Sentence

WORDS = "the cat sat on mat dogs chase cats in garden rain fell she bought milk at store".split()  # noqa: SIM905


def planted(layer: int, num_things: int, seed: int, num_types: int = 40) -> LabeledVectors:
    """Noise in four layers, and a label of three that one of them holds; types say nothing of the label."""
    draws = np.random.default_rng(seed)
    labels = draws.integers(3, size=num_things)
    vectors = draws.normal(size=(4, num_things, 12)).astype(np.float32)
    vectors[layer, :, :3] += 4 * np.eye(3, dtype=np.float32)[labels]
    types = [f"w{number}" for number in draws.integers(num_types, size=num_things)]
    return LabeledVectors("words", vectors, [f"L{label}" for label in labels], types)


def sentences(num_rows: int, seed: int, holding: str | None = None) -> list[Sentence]:
    """Eight random words each, tagged by type; with `holding`, by whether their sentence contains that word."""
    draws = np.random.default_rng(seed)
    made = []
    for line in range(1, num_rows + 1):
        words = [WORDS[number] for number in draws.integers(len(WORDS), size=8)]
        if holding is not None:
            words = ["the" if word == holding else word for word in words]
            words[draws.integers(8)] = holding if line % 2 else "the"
        tags = ["EVEN" if WORDS.index(word) % 2 == 0 else "ODD" for word in words]
        made.append(Sentence.of_words(words, tags if holding is None else [f"{line % 2}"] * 8, line, "made.conll"))
    return made


@pytest.mark.parametrize("layer", [0, 2, 3])
def test_a_planted_property_is_found_in_its_layer_and_not_elsewhere(layer: int):
    found = probe_vectors(planted(layer, 600, 1), planted(layer, 600, 2))
    others = [one.accuracy for one in found.layers if one.layer != layer]
    assert found.best.layer == found.most_selective.layer == layer and found.best.accuracy > 0.95
    assert max(others) < 0.42 and found.majority == pytest.approx(1 / 3, abs=0.06)
    for one in found.layers:  # noise does not depend on the type, so nothing is memorized
        assert one.control == pytest.approx(found.control_majority, abs=0.08)
        assert one.selectivity == one.accuracy - one.control


def test_memorization_is_not_selectivity():
    """A layer that encodes only the type: labels by type and random labels are probed equally well."""
    draws = np.random.default_rng(5)

    def made(num_things: int) -> LabeledVectors:
        types = draws.integers(20, size=num_things)
        vectors = np.stack([draws.normal(size=(num_things, 20)), np.eye(20)[types]]).astype(np.float32)
        return LabeledVectors(
            "words", vectors, ["even" if one % 2 == 0 else "odd" for one in types], [f"w{one}" for one in types]
        )

    noise, types = probe_vectors(made(800), made(800)).layers
    assert types.accuracy == types.control == 1 and types.selectivity == 0
    assert noise.accuracy < 0.6


def test_what_stands_around_a_word_is_known_above_the_embeddings_alone():
    """In a network with random weights: the word itself is read off the embeddings, its sentence only above them."""
    own = probe(tiny(), sentences(150, 1), sentences(80, 2), penalty=1.0)
    assert own.layers[0].accuracy > 0.99 and own.unit == "words" and own.labels == ("EVEN", "ODD")
    assert own.layers[0].selectivity < 0.1, "the words are memorized, in either task"
    assert len(own.layers) == 5 and own.num_train == 1200 and own.num_dev == 640 and own.known == 1
    model = tiny()
    with torch.no_grad():
        for layer in model.encoder.in_order:  # attention is even, and what it brings outweighs the word itself
            layer.attention.qkv.weight[:64] = 0
            layer.attention.out.weight.mul_(5)
    around = probe(model, sentences(150, 1, "dogs"), sentences(80, 2, "dogs"), penalty=1.0)
    assert around.layers[0].accuracy < 0.65
    assert max(one.accuracy for one in around.layers[1:]) > 0.8
    assert around.best.layer > 0 and around.majority == pytest.approx(0.5, abs=0.01)


def test_vectors_of_words_are_those_of_their_first_pieces():
    model = tiny()
    row = Sentence.of_words(["an", "unbelievably", "long", "sentence"], ["A", "B", "A", "B"], 1, "x")
    found = embed_labeled(model, [row], "mean", None, 10)
    encoding = model.tokenizer.encode_batch([row.text])[0]
    places = [encoding.word_ids.index(number) for number in range(4)]
    with torch.no_grad():
        states = model(torch.tensor([encoding.ids]), output_hidden_states=True).hidden_states
    expected = np.stack([state[0, places].numpy() for state in states])
    np.testing.assert_allclose(found.vectors, expected, atol=1e-4)
    assert tuple(found.types) == row.words


def test_texts_are_probed_by_their_pooled_vectors():
    rows = [Row(text, None, "pets" if "cat" in text else "other", line, "x") for line, text in enumerate(TEXTS * 6, 1)]
    found = probe(tiny(), rows, rows, pooling="max", penalty=0.1)
    assert found.unit == "texts" and found.best.accuracy == 1 and found.known == 1
    pairs = [Row(row.text, "rain fell", row.label, row.line, row.file) for row in rows]
    assert not np.allclose(
        embed_labeled(tiny(), pairs, "max", None, 9).vectors, embed_labeled(tiny(), rows, "max", None, 9).vectors
    )


def test_the_probe_is_the_minimum_of_another_optimizer():
    train, dev = planted(1, 300, 3), planted(1, 300, 4)
    numbers = {label: number for number, label in enumerate(sorted(set(train.labels)))}
    x, held = (StandardScaler().fit(train.vectors[0]).transform(one.vectors[0]) for one in (train, dev))
    x, held = (torch.tensor(one, dtype=torch.float64) for one in (x, held))
    y = torch.tensor([numbers[label] for label in train.labels])
    weight, bias = torch.zeros(12, 3, dtype=torch.float64, requires_grad=True), torch.zeros(3, dtype=torch.float64)
    bias.requires_grad_()
    solver = torch.optim.LBFGS([weight, bias], max_iter=500, tolerance_grad=1e-10, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        solver.zero_grad()
        own = (
            torch.nn.functional.cross_entropy(x @ weight + bias, y, reduction="sum") + 10.0 / 2 * weight.square().sum()
        )
        own.backward()
        return own

    solver.step(loss)
    guesses = (held @ weight + bias).argmax(dim=1).tolist()
    right = np.mean([guess == numbers[label] for guess, label in zip(guesses, dev.labels, strict=True)])
    accuracy, is_finished = fit_and_score(train.vectors[0], train.labels, dev.vectors[0], dev.labels, 10.0)
    assert is_finished and accuracy == pytest.approx(right, abs=1 / 300 + 1e-9)  # one tie may fall the other way
    theirs = LogisticRegression(C=0.1).fit(x.numpy(), train.labels).coef_.T
    np.testing.assert_allclose(theirs - theirs.mean(axis=1, keepdims=True), weight.detach().numpy(), atol=2e-3)


def test_control_labels_belong_to_types_and_come_as_often_as_labels():
    labels = ["a"] * 70 + ["b"] * 20 + ["c"] * 10
    types = [f"w{number}" for number in range(4000)]
    drawn = control_labels(types, labels, seed=3)
    shares = {label: count / 4000 for label, count in Counter(drawn.values()).items()}
    assert shares == pytest.approx({"a": 0.7, "b": 0.2, "c": 0.1}, abs=0.025)
    assert control_labels(types[::-1][:50] * 2, labels, seed=3).items() <= drawn.items()
    assert control_labels(types, labels, seed=4) != drawn


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([], "at least one row"),
        ([Row("a", None, "x", 1, "f"), Sentence.of_words(["a"], ["B"], 1, "f")], "either tagged sentences"),
        ([Row("a", None, None, 4, "f.tsv")], "f.tsv, line 4"),
        ([Row("a", None, "x", 1, "f"), Row("the cat", None, "x", 2, "f")], "All training texts have the label 'x'"),
    ],
)
def test_what_cannot_be_probed_is_refused_in_a_sentence(rows, words):
    with pytest.raises(InputError, match=words):
        probe(tiny(), rows, rows)


def test_parts_that_do_not_belong_together_are_refused_in_a_sentence():
    texts = [Row("the cat", None, "x", 1, "f"), Row("rain", None, "y", 2, "f")]
    with pytest.raises(InputError, match="labels of texts, the dev examples of words"):
        probe(tiny(), texts, sentences(2, 1))
    with pytest.raises(InputError, match="such as 'X', is one of the training texts, such as 'x'"):
        probe(tiny(), texts, [Row("the cat", None, "X", 1, "f")])
    seen = probe(tiny(), texts, [*texts, Row("the dog", None, "z", 3, "f")])
    assert (
        seen.labels == ("x", "y") and max(one.accuracy for one in seen.layers) <= 2 / 3
    )  # what is new counts as wrong


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"most": 0}, "most is 0"), ({"penalty": 0.0}, "penalty is 0"), ({"pooling": "men"}, "mean")],
)
def test_settings_out_of_range_are_refused_whatever_is_probed(settings, words):
    for rows in (sentences(2, 1), [Row("the cat", None, "x", 1, "f"), Row("rain", None, "y", 2, "f")]):
        with pytest.raises(ConfigError, match=words):
            probe(tiny(), rows, rows, **settings)
