"""Blocks that are made ahead: the same, in order, two at most, and errors in their turn."""

from __future__ import annotations

import itertools
import threading
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.samples import TEXTS, tiny
from maskwright.inference import embed
from maskwright.inference.embed import TextEncoder
from maskwright.inference.prepared import ahead, text_blocks


@given(st.lists(st.integers()))
def test_items_come_in_their_order(items):
    def failing():
        yield from items
        raise ValueError("at the end")

    assert list(ahead(iter(items))) == items
    taken = ahead(failing())
    assert [next(taken) for _ in items] == items
    with pytest.raises(ValueError, match="end"):
        next(taken)


def test_no_more_than_one_item_is_made_ahead():
    made = []
    taken = ahead(made.append(number) or number for number in itertools.count())
    for number in range(5):
        assert next(taken) == number
        assert len(made) <= number + 2
    taken.close()
    assert not [one for one in threading.enumerate() if one.name.startswith("maskwright-ahead")]


@given(st.lists(st.text(max_size=9), max_size=20), st.integers(1, 5), st.integers(1, 30))
def test_blocks_hold_every_text_once(texts, num_texts, num_characters):
    blocks = list(text_blocks(iter(texts), num_texts, num_characters))
    assert [text for block in blocks for text in block] == texts
    assert all(1 <= len(block) <= num_texts for block in blocks)
    assert all(sum(map(len, block[:-1])) < num_characters for block in blocks)


def test_streamed_vectors_are_those_of_one_call(monkeypatch):
    encoder = TextEncoder(tiny())
    texts = [f"{text} {number}" for number in range(6) for text in TEXTS]
    together = encoder.vectors(texts)
    monkeypatch.setattr(embed, "BLOCK_TEXTS", 7)
    found = list(encoder.stream_with_texts(iter(texts)))
    assert [text for block, _ in found for text in block] == texts
    np.testing.assert_allclose(np.concatenate([vectors for _, vectors in found]), together, atol=1e-5)


def test_a_stream_without_end_takes_bounded_memory(monkeypatch):
    monkeypatch.setattr(embed, "BLOCK_TEXTS", 32)
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
