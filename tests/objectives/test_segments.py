"""Which text becomes segment A and B: half and half, nothing lost, nothing too long."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from maskwright.core.randomness import generator
from maskwright.objectives.segments import piece_bounds, plan_pairs, plan_singles

CORPUS = st.lists(st.lists(st.integers(1, 60), min_size=1, max_size=12), min_size=2, max_size=8)


def bounds_of(corpus: list[list[int]], limit: int) -> dict[int, list[int]]:
    return {number: piece_bounds(lengths, limit) for number, lengths in enumerate(corpus)}


@given(lengths=st.lists(st.integers(0, 500), max_size=20), limit=st.integers(1, 70))
def test_pieces_cover_the_document_and_respect_the_limit(lengths: list[int], limit: int):
    bounds = piece_bounds(lengths, limit)
    assert bounds[0] == 0
    assert bounds[-1] == sum(lengths)
    assert all(0 < stop - start <= limit for start, stop in zip(bounds, bounds[1:], strict=False))
    assert set(np.cumsum(lengths)) <= set(bounds), "a sentence boundary was lost"


@given(corpus=CORPUS, seed=st.integers(0, 100), limit=st.integers(8, 64))
def test_single_segments_partition_every_document(corpus: list[list[int]], seed: int, limit: int):
    examples = plan_singles(bounds_of(corpus, limit), limit, 0.1, generator(seed, "examples"))
    for document, lengths in enumerate(corpus):
        spans = [(e.a_start, e.a_stop) for e in examples if e.a_document == document]
        assert spans[0][0] == 0
        assert spans[-1][1] == sum(lengths)
        assert all(left[1] == right[0] for left, right in zip(spans, spans[1:], strict=False))
        assert all(0 < stop - start <= limit for start, stop in spans)


@given(corpus=CORPUS, seed=st.integers(0, 100), limit=st.integers(8, 64))
def test_laws_of_pairs(corpus: list[list[int]], seed: int, limit: int):
    bounds = bounds_of(corpus, limit // 2)
    examples = plan_pairs(bounds, limit, 0.1, generator(seed, "examples"))
    covered = dict.fromkeys(bounds, 0)
    for example in examples:
        a, b = example.a_stop - example.a_start, example.b_stop - example.b_start
        assert a > 0
        assert b > 0
        assert a + b <= limit
        assert example.b_stop <= bounds[example.b_document][-1]
        assert example.is_random == (example.b_document != example.a_document)
        if not example.is_random:
            assert example.a_stop == example.b_start, "the true partner does not follow A"
        assert example.a_start <= covered[example.a_document], "text was left out"
        covered[example.a_document] = max(covered[example.a_document], example.a_stop)
        if not example.is_random:
            covered[example.a_document] = max(covered[example.a_document], example.b_stop)
    for document, edges in bounds.items():
        # A halved last piece may end with a random partner: at most that half is unused in this epoch.
        assert edges[-1] - covered[document] <= limit // 2


def test_half_of_the_partners_are_random():
    rng = np.random.default_rng(0)
    corpus = [rng.integers(3, 60, size=rng.integers(1, 40)).tolist() for _ in range(2000)]
    examples = plan_pairs(bounds_of(corpus, 62), 125, 0.1, generator(3, "examples"))
    assert len(examples) > 10_000
    assert abs(np.mean([example.is_random for example in examples]) - 0.5) < 0.01
