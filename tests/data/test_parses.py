"""Distances from a file of parses: those of the tree, in place of those of the text."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from inference.samples import tokenizer as make_tokenizer
from maskwright.core.errors import ConfigError, InputError
from maskwright.data.batch import Batch
from maskwright.data.parses import FAR, Parse, parsed_batch, read_parses, tree_distances
from maskwright.models.build import build
from maskwright.models.config import ModelConfig

SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
SIZES |= {"vocab_size": 200, "max_position_embeddings": 40, "hidden_dropout": 0.0, "attention_dropout": 0.0}


def rows(*words):
    """A sentence of (form, head) as CoNLL-U."""
    lines = [f"{index}\t{form}\t_\t_\t_\t_\t{head}\t_\t_\t_\n" for index, (form, head) in enumerate(words, start=1)]
    return "".join(lines)


@st.composite
def trees(draw):
    """Heads of a random tree: words in a random order, each under one that came before."""
    order = draw(st.permutations(range(1, draw(st.integers(1, 9)) + 1)))
    heads = dict.fromkeys(order[:1], 0)
    for index, word in enumerate(order[1:], start=1):
        heads[word] = order[draw(st.integers(0, index - 1))]
    return [heads[word] for word in range(1, len(order) + 1)]


@given(trees())
def test_distances_are_the_shortest_ways_with_the_sign_of_the_order(heads):
    count = len(heads)
    ways = np.full((count, count), 99)
    np.fill_diagonal(ways, 0)
    for word, head in enumerate(heads):
        if head:
            ways[word, head - 1] = ways[head - 1, word] = 1
    for middle in range(count):
        ways = np.minimum(ways, ways[:, [middle]] + ways[[middle], :])
    found = tree_distances(heads)
    assert np.array_equal(np.abs(found), ways)
    assert np.array_equal(np.sign(found), np.sign(np.arange(count) - np.arange(count)[:, None]))


def test_a_sentence_of_the_file_becomes_its_distances(tmp_path):
    text = "# a comment\n" + rows(("the", 2), ("cat", 3), ("sat", 0)) + "\n\n" + rows(("dogs", 0))
    text += "1.1\tgone\t_\t_\t_\t_\t_\t_\t_\t_\n"
    (tmp_path / "a.conllu").write_text(text)
    parses = list(read_parses(tmp_path / "a.conllu"))
    assert parses == [Parse(["the", "cat", "sat"], [2, 3, 0]), Parse(["dogs"], [0])]
    assert tree_distances(parses[0].heads).tolist() == [[0, 1, 2], [-1, 0, 1], [-2, -1, 0]]


def test_pieces_of_a_word_stand_together_and_special_tokens_far():
    tokenizer = make_tokenizer()
    parse = Parse(["the", "unbelievable", "cat"], [3, 3, 0])
    batch = parsed_batch(tokenizer, [parse])
    tokens = tokenizer("the unbelievable cat").tokens
    pieces = len(tokens) - 4
    assert pieces > 1 and tokens[1] == "the" and tokens[-2] == "cat"
    (found,) = batch.distances
    assert found[1, 2 : 2 + pieces].tolist() == [2] * pieces and found[2, 2 : 2 + pieces].tolist() == [0] * pieces
    assert found[2, -2] == 1 and found[-2, 2] == -1 and found[1, -2] == 1
    assert found[0].tolist() == [0] + [FAR] * (len(tokens) - 1) and found[-1, 1] == -FAR


@pytest.mark.parametrize("kind", ["relative_key", "relative_key_value"])
def test_linear_distances_given_as_distances_change_nothing_and_others_do(kind):
    model = build(ModelConfig(positions=kind, relative_distance=3, **SIZES), None).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.3, generator=torch.Generator().manual_seed(1))
    batch = Batch.from_sequences([[5, 6, 7, 8], [9, 10, 11, 12], [13, 14]])
    lines = [torch.arange(length) - torch.arange(length)[:, None] for length in batch.lengths]
    expected = model.encode(batch).hidden
    linear = model.encode(replace(batch, distances=tuple(lines))).hidden
    torch.testing.assert_close(linear, expected, rtol=0, atol=1e-5)
    flat = replace(batch, distances=tuple(torch.zeros_like(line) for line in lines))
    assert (model.encode(flat).hidden - expected).abs().max() > 1e-2
    alone = Batch.from_sequences([[9, 10, 11, 12]])
    alone = replace(alone, distances=(lines[1] * 2,))
    mixed = replace(batch, distances=(lines[0], lines[1] * 2, lines[2]))
    torch.testing.assert_close(model.encode(mixed).hidden[4:8], model.encode(alone).hidden, rtol=0, atol=1e-5)


@pytest.mark.parametrize("settings", [{}, {"positions": "none"}, {"positions": "relative_key", "attention": "window"}])
def test_distances_without_relative_positions_are_refused(settings):
    model = build(ModelConfig(**settings, **SIZES), None)
    batch = replace(Batch.from_sequences([[5, 6]]), distances=(torch.zeros(2, 2, dtype=torch.int64),))
    with pytest.raises(ConfigError, match="needs relative positions"):
        model.encode(batch)


@pytest.mark.parametrize(
    "text, said",
    [
        (rows(("a", 0), ("b", 0)), r"a\.conllu:2: the heads are not a tree with one root"),
        (rows(("a", 0), ("b", 9)), "not a tree"),
        (rows(("a", "_")), "HEAD is '_'"),
        (rows(("a", "²")), "the head '²' is not a number"),
        (rows(("a", 0)) + "\n" + "a b\n", r"conllu:3: has 1 column"),
    ],
)
def test_an_invalid_parse_is_reported_with_its_line(text, said, tmp_path):
    (tmp_path / "a.conllu").write_text(text)
    with pytest.raises(InputError, match=said):
        list(read_parses(tmp_path / "a.conllu"))
