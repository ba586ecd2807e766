"""Vectors: the layers and poolings that were asked for, by text, token and word, in the order of the texts."""

import itertools
import tracemalloc
import unicodedata

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.samples import TEXTS, tiny, tokenizer
from maskwright.core.errors import ConfigError
from maskwright.data.batch import Batch
from maskwright.inference.embed import NAMED_LAYERS, TextEncoder, choose_layers
from maskwright.inference.ready import place
from maskwright.models.pooling import pool

LAYERS = [*NAMED_LAYERS, "0", "2", "-1", "1,3", (4, 2), 3]


def padded_states(model, text):
    """Hidden states of one text from the padded call: [layers + 1, tokens, hidden]."""
    encoding = tokenizer()(text, max_length=48)
    with torch.inference_mode():
        out = model(
            input_ids=torch.tensor([encoding.ids]),
            token_type_ids=torch.tensor([encoding.type_ids]),
            output_hidden_states=True,
        )
    return torch.cat(out.hidden_states).numpy()


def expected_tokens(states, layers):
    table = {
        "embeddings": lambda: states[0],
        "last": lambda: states[4],
        "second-to-last": lambda: states[3],
        "sum-all": lambda: states[1:].sum(0),
        "sum-last-4": lambda: states[1:5].sum(0),
        "concat-last-4": lambda: np.concatenate(list(states[1:5]), axis=-1),
        "0": lambda: states[0],
        "2": lambda: states[2],
        "-1": lambda: states[4],
        "1,3": lambda: np.concatenate([states[1], states[3]], axis=-1),
        (4, 2): lambda: np.concatenate([states[4], states[2]], axis=-1),
        3: lambda: states[3],
    }
    return table[layers]()


@pytest.mark.parametrize(("layers", "pooling"), [(one, ("cls", "mean", "max")[n % 3]) for n, one in enumerate(LAYERS)])
def test_pooled_vectors_are_those_of_the_padded_model(layers, pooling):
    model = tiny()
    found = TextEncoder(model, layers, pooling).vectors(TEXTS)
    reduce = {"cls": lambda x: x[0], "mean": lambda x: x.mean(0), "max": lambda x: x.max(0)}[pooling]
    for text, vector in zip(TEXTS, found, strict=True):
        assert np.allclose(vector, reduce(expected_tokens(padded_states(model, text), layers)), atol=1e-4)


@pytest.mark.parametrize("layers", ["last", "concat-last-4"])
def test_token_vectors_are_those_of_the_padded_model(layers):
    model = tiny()
    encoder = TextEncoder(model, layers, "none")
    for text, found in zip(TEXTS, encoder.token_vectors(TEXTS), strict=True):
        assert found.tokens == tokenizer()(text, max_length=48).tokens
        assert np.allclose(found.vectors, expected_tokens(padded_states(model, text), layers), atol=1e-4)


words = st.lists(st.sampled_from(" ".join(TEXTS).split()), max_size=60).map(" ".join)


@settings(max_examples=50)
@given(words | st.tuples(words, words) | st.text(max_size=9), st.sampled_from(["cls", "mean", "max"]), st.booleans())
def test_a_text_alone_has_the_bits_of_the_model_on_its_tokens(text, pooling, normalize):
    model = place(tiny(), "cpu", "fp32")
    ids, types = tokenizer().encode_ids([text], 48)
    batch = Batch.from_sequences(ids, None if isinstance(text, str) else types)
    with torch.inference_mode():
        expected = pool(model.encode(batch).hidden, batch, pooling)
        expected = torch.nn.functional.normalize(expected, dim=-1) if normalize else expected
    found = TextEncoder(model, pooling=pooling, normalize=normalize).vectors([text])
    assert np.array_equal(found, expected.numpy())


@settings(max_examples=25)
@given(st.permutations(range(len(TEXTS))), st.integers(1, 200))
def test_neither_order_nor_batch_size_changes_a_vector(order, batch_tokens):
    encoder = TextEncoder(tiny())
    expected = encoder.vectors(TEXTS)
    assert np.allclose(encoder.vectors([TEXTS[i] for i in order], batch_tokens), expected[list(order)], atol=1e-5)


def test_blocks_join_to_the_whole(monkeypatch):
    encoder = TextEncoder(tiny())
    whole = encoder.vectors(TEXTS)
    monkeypatch.setattr("maskwright.inference.embed.BLOCK_TEXTS", 3)
    assert [len(block) for block, _ in encoder.stream_with_texts(TEXTS)] == [3, 3, 3, 1]
    assert np.allclose(encoder.vectors(TEXTS), whole, atol=1e-5)
    assert len(list(TextEncoder(tiny(), pooling="none").token_vectors(TEXTS))) == len(TEXTS)
    assert TextEncoder(tiny(), "concat-last-4").vectors([]).shape == (0, 128)


def plain(text):
    return "".join(c for c in unicodedata.normalize("NFD", text.lower()) if not unicodedata.combining(c))


TOKEN_ENCODER = TextEncoder(tiny(), pooling="none")


@settings(max_examples=50)
@given(st.lists(st.sampled_from([*"abcdefg ,.!-é🙂", "cat", "unbelievably", " "]), max_size=12).map("".join))
def test_every_token_names_the_word_of_the_text_that_it_is_part_of(text):
    found = next(TOKEN_ENCODER.token_vectors([text]))
    for token, word, (start, end), source in zip(found.tokens, found.words, found.spans, found.texts, strict=True):
        assert (word == "") == (source is None)
        if source is not None:
            assert text[start:end] == word
            assert token == "[UNK]" or token.removeprefix("##") in plain(word)
    assert len(found.tokens) == len(found.vectors)


def test_a_word_has_the_mean_of_its_pieces_or_the_first_from_any_layers():
    text = "the unbelievably cat"
    for layers in ("embeddings", "second-to-last", "sum-all", "concat-last-4", "1,-1"):
        encoder = TextEncoder(tiny(), layers)  # whatever pools a whole text
        pieces = next(TextEncoder(tiny(), layers, pooling="none").token_vectors([text]))
        words = next(encoder.word_vectors([text], subwords="first"))
        assert words.words == ["the", "unbelievably", "cat"] and words.spans == [(0, 3), (4, 16), (17, 20)]
        firsts = [pieces.words.index(word) for word in words.words]
        assert np.array_equal(words.vectors, pieces.vectors[firsts])
        assert words.vectors.shape == (3, encoder.size)
        own = [index for index, word in enumerate(pieces.words) if word == "unbelievably"]
        assert len(own) > 1 and np.allclose(pieces.by_word().vectors[1], pieces.vectors[own].mean(axis=0))
    with pytest.raises(ConfigError, match="Known: mean, first"):
        next(TextEncoder(tiny()).word_vectors([text], subwords="last"))


def test_normalized_vectors_of_words_have_length_one_after_the_mean():
    text = "the unbelievably cat"
    plain = next(TextEncoder(tiny()).word_vectors([text])).vectors
    found = next(TextEncoder(tiny(), pooling="none", normalize=True).word_vectors([text])).vectors
    assert np.allclose(found, plain / np.linalg.norm(plain, axis=1, keepdims=True), atol=1e-6)


def test_the_same_word_twice_is_two_words_also_across_a_pair():
    found = next(TextEncoder(tiny(), pooling="none").token_vectors([("cat cat", "cat")]))
    assert found.by_word().words == ["cat", "cat", "cat"] and found.by_word().texts == [0, 0, 1]
    empty = next(TextEncoder(tiny(), pooling="none").token_vectors([""]))
    assert empty.tokens == ["[CLS]", "[SEP]"] and empty.by_word().vectors.shape == (0, 32)


@pytest.mark.parametrize("layers", ["", "5", "-6", "first", "1,x", [], [9]])
def test_layers_that_do_not_exist_are_refused(layers):
    with pytest.raises(ConfigError):
        choose_layers(layers, 4)
    with pytest.raises(ConfigError, match="requires 4 layers"):
        choose_layers("sum-last-4", 2)


def test_poolings_that_do_not_exist_are_refused():
    with pytest.raises(ConfigError, match="Did you mean 'mean'"):
        TextEncoder(tiny(), pooling="means")
    with pytest.raises(ConfigError, match="token"):
        TextEncoder(tiny(), pooling="none").vectors(["a"])


def test_cut_texts_are_counted():
    encoder = TextEncoder(tiny(), max_length=8)
    encoder.vectors(TEXTS)
    assert encoder.counts.texts == len(TEXTS)
    assert encoder.counts.cut_texts == sum(len(tokenizer()(text).ids) > 8 for text in TEXTS)


def test_a_stream_without_end_takes_bounded_memory(monkeypatch):
    monkeypatch.setattr("maskwright.inference.embed.BLOCK_TEXTS", 32)
    encoder = TextEncoder(tiny())
    taken = encoder.stream_with_texts(f"the cat sat on the mat {number}" for number in itertools.count())
    next(taken)
    tracemalloc.start()
    try:
        for _, vectors in itertools.islice(taken, 20):
            assert vectors.shape == (32, 32)
        early = tracemalloc.get_traced_memory()[0]
        for _, vectors in itertools.islice(taken, 60):
            assert vectors.shape == (32, 32)
        late = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
        taken.close()
    assert late - early < 100_000
