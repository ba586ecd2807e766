"""Search for heads: planted patterns are found, and a head that moves is found to move."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from inference.samples import tiny
from looked_at import TEXT, network, translator
from maskwright.core.errors import ConfigError, InputError
from maskwright.inspect import PATTERNS, AttentionMap, attention, find_heads, find_word_heads, head_moves, patterns_of

PAIR = ("the cat , the mat", "dogs and unbelievably long cats")


def evenly(map: AttentionMap) -> AttentionMap:
    """The same text with weights that are spread evenly."""
    visible = np.tri(len(map.queries)) if map.is_causal else np.ones(map.weights.shape[2:])
    rows = (visible / visible.sum(axis=1, keepdims=True)).astype(np.float32)
    return replace(map, weights=np.broadcast_to(rows, map.weights.shape).copy())


@pytest.mark.parametrize("pattern", [name for name in PATTERNS if name != "diagonal"])
def test_a_planted_head_is_found_and_all_others_stay_at_even(pattern: str):
    map = evenly(attention(tiny(), PAIR).main)
    looks = planted(pattern, map)
    asked = looks.any(axis=1)
    map.weights[2, 1, asked] = looks[asked] / looks[asked].sum(axis=1, keepdims=True)
    found = find_heads(map, pattern)
    assert (found.heads[0].layer, found.heads[0].head) == (3, 2)
    assert found.heads[0].score == pytest.approx(1, abs=1e-6) and found.num_tokens == asked.sum()
    for head in found.heads[1:]:
        assert head.score == pytest.approx(head.even, abs=1e-6)
    assert 0 < found.heads[0].even < 1 and len(found.heads) == 16


def planted(pattern: str, map: AttentionMap) -> np.ndarray:
    """bool [tokens, tokens], by a plain walk over all pairs of tokens."""
    t, count = map.queries, len(map.queries)
    looks = np.zeros((count, count), dtype=bool)
    for i in range(count):
        for j in range(count):
            own, other = (t.texts[i], t.words[i]), (t.texts[j], t.words[j])
            looks[i, j] = {
                "previous token": j == i - 1,
                "next token": j == i + 1,
                "same token": i != j and t.ids[i] == t.ids[j],
                "same word": i != j and own == other and None not in own,
                "first token": j == 0 and i > 0,
                "separator": t.subwords[j] == "[SEP]",
                "itself": i == j,
                "punctuation": t.subwords[j] in ",.!",
                "other text": t.texts[j] is not None and t.texts[i] is not None and t.texts[i] != t.texts[j],
            }[pattern] and t.texts[i] is not None
    return looks


def test_from_word_to_word_counts_all_pieces_of_both():
    map = attention(tiny(), "unbelievably long cats").main
    (rows,), (columns,) = map.queries.find("unbelievably"), map.keys.find("cats")
    found = find_word_heads(map, "unbelievably", "cats")
    expected = map.weights[:, :, rows][..., columns].sum(axis=-1).mean(axis=-1)
    np.testing.assert_allclose(found.scores, expected, atol=1e-6)
    assert len(rows) > 1 and found.pattern == "unbelievably -> cats"
    assert [one.score for one in found.heads] == sorted((one.score for one in found.heads), reverse=True)
    assert found.to_json(2)["heads"][0]["score"] == found.heads[0].score


def test_a_causal_model_has_no_attention_to_later_tokens():
    map = attention(network("GPT-2"), TEXT).main
    names = [found.pattern for found in patterns_of(map)]
    assert "previous token" in names and "next token" not in names
    for found in patterns_of(evenly(map)):
        assert found.heads[0].score == pytest.approx(found.heads[0].even, abs=1e-6)
    with pytest.raises(InputError, match="applies to no token"):
        find_heads(map, "next token")


def test_cross_attention_knows_words_and_the_diagonal():
    map = attention(translator(), TEXT, target="rain fell").of("cross")
    assert [found.pattern for found in patterns_of(map)] == ["diagonal"]
    found = find_word_heads(map, "rain", "cat")
    assert 0 <= found.heads[-1].score <= found.heads[0].score <= 1
    with pytest.raises(InputError, match="diagonal, or words"):
        find_heads(map, "previous token")


def test_wrong_names_and_words_are_refused():
    map = attention(tiny(), TEXT).main
    with pytest.raises(ConfigError, match="attention pattern"):
        find_heads(map, "previus token")
    with pytest.raises(InputError, match="'tree' is not in"):
        find_word_heads(map, "cat", "tree")


# -- what moves ------------------------------------------------------------------------------------------------------


def test_the_head_that_was_moved_moves_most_and_says_where():
    """In the second text one head of `cat` attends to `mat` instead of `sat`."""
    first = evenly(attention(tiny(), "the cat sat on the mat").main)
    second = evenly(attention(tiny(), "the cat sat in the mat").main)
    cat, sat, mat = (first.queries.find(word)[0][0] for word in ("cat", "sat", "mat"))
    for map, place in ((first, sat), (second, mat)):
        map.weights[1, 3, cat] = 0
        map.weights[1, 3, cat, place] = 1
    found = head_moves(first, second, "cat")
    best = found.moves[0]
    assert (best.layer, best.head) == (2, 4) and best.distance == pytest.approx(1)
    assert {(one.label, one.before, one.after) for one in best.shifts[:2]} == {("sat", 1, 0), ("mat", 0, 1)}
    assert all(move.distance == pytest.approx(0, abs=1e-6) for move in found.moves[1:])
    assert found.to_json(1)["heads"][0]["shifts"][0]["token"] in ("sat", "mat")


def test_texts_that_share_nothing_and_words_that_one_lacks_are_refused():
    one, other = (attention(tiny(), text).main for text in ("the cat", "rain fell on dogs"))
    with pytest.raises(InputError, match="'cat' is not in"):
        head_moves(one, other, "cat")
    with pytest.raises(InputError, match="different kinds"):
        head_moves(one, other.select([1]))
