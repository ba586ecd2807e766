"""Search for heads: planted patterns are found, and a head that moves is found to move."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from inference.samples import tiny
from looked_at import TEXT, network, translator
from maskwright.core.errors import ConfigError, InputError
from maskwright.inspect import PATTERNS, AttentionMap, attention, find_heads, find_word_heads, head_moves, patterns_of
from maskwright.inspect.heads import clearest_head, describe_head, find_token_heads

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


def test_the_clearest_head_and_its_sentence():
    map = evenly(attention(tiny(), PAIR).main)
    looks = planted("next token", map)
    asked = looks.any(axis=1)
    map.weights[1, 3, asked] = looks[asked]
    map.weights[3, 0] = 0
    map.weights[3, 0, :, 0] = 1  # all attention to [CLS], which most heads have
    patterns = patterns_of(map)
    assert clearest_head(patterns) == (2, 4)
    found = describe_head(patterns, 2, 4)
    assert found.startswith("Layer 2, head 4 attends to the following token: 100% of its attention; uniform attention")
    assert "attends to the first token of the sequence: 100%" in describe_head(patterns, 4, 1)
    assert "follows none of the patterns" in describe_head(patterns, 1, 1)


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


@pytest.mark.parametrize("kind", ["encoder", "causal"])
def test_heads_are_ranked_by_the_attention_that_the_other_tokens_give_one(kind: str):
    model = tiny() if kind == "encoder" else network("GPT-2")
    map = attention(model, TEXT).main
    token = 3
    rows = [row for row, special in enumerate(map.queries.is_special) if not special and row != token]
    rows = [row for row in rows if row > token] if map.is_causal else rows
    expected = map.weights[:, :, rows, token].mean(axis=-1)
    found = find_token_heads(map, token)
    assert found is not None and found.num_tokens == len(rows)
    assert found.scores == pytest.approx(expected, abs=1e-6)
    assert (found.heads[0].layer - 1, found.heads[0].head - 1) == np.unravel_index(expected.argmax(), expected.shape)
    even = [1 / (row + 1) if map.is_causal else 1 / len(map.keys) for row in rows]
    assert found.heads[0].even == pytest.approx(np.mean(even))
    assert find_token_heads(map, len(map.keys)) is None
    assert not map.is_causal or find_token_heads(map, len(map.keys) - 1) is None
    assert find_token_heads(attention(translator(), TEXT, target="rain fell").main, 0) is None


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
