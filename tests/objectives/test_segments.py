"""Which text becomes segment A and B: half and half, nothing lost, nothing too long, nothing wasted."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from maskwright.core.randomness import generator
from maskwright.objectives.segments import plan_pairs, plan_singles, sentence_bounds

CORPUS = st.lists(st.lists(st.integers(1, 60), min_size=1, max_size=12), min_size=2, max_size=8)


def bounds_of(corpus: list[list[int]]) -> dict[int, list[int]]:
    return {number: sentence_bounds(np.array(lengths)) for number, lengths in enumerate(corpus)}


@given(lengths=st.lists(st.integers(0, 500), max_size=20))
def test_bounds_are_the_sentence_ends_without_empty_sentences(lengths: list[int]):
    bounds = sentence_bounds(np.array(lengths, dtype=np.int64))
    assert bounds == sorted({0, *np.cumsum(lengths).tolist()})


@given(corpus=CORPUS, seed=st.integers(0, 100), limit=st.integers(8, 64))
def test_single_segments_partition_every_document(corpus: list[list[int]], seed: int, limit: int):
    examples = plan_singles(bounds_of(corpus), limit, 0.1, generator(seed, "examples"))
    for document, lengths in enumerate(corpus):
        spans = [(e.a_start, e.a_stop) for e in examples if e.a_document == document]
        assert spans[0][0] == 0
        assert spans[-1][1] == sum(lengths)
        assert all(left[1] == right[0] for left, right in zip(spans, spans[1:], strict=False))
        assert all(0 < stop - start <= limit for start, stop in spans)


@given(corpus=CORPUS, seed=st.integers(0, 100), limit=st.integers(8, 64))
def test_examples_are_full_until_their_document_ends(corpus: list[list[int]], seed: int, limit: int):
    bounds = bounds_of(corpus)
    for example in plan_singles(bounds, limit, 0.0, generator(seed, "examples")):
        is_last = example.a_stop == bounds[example.a_document][-1]
        assert is_last or example.a_stop - example.a_start == limit
    for example in plan_pairs(bounds, limit, 0.0, generator(seed, "examples")):
        size = example.a_stop - example.a_start + example.b_stop - example.b_start
        runs_out = bounds[example.a_document][-1] - example.a_start < limit
        partner_runs_out = example.b_stop == bounds[example.b_document][-1]
        assert size == limit or runs_out or partner_runs_out


@given(corpus=CORPUS, seed=st.integers(0, 100), limit=st.integers(8, 64))
def test_laws_of_pairs(corpus: list[list[int]], seed: int, limit: int):
    bounds = bounds_of(corpus)
    examples = plan_pairs(bounds, limit, 0.1, generator(seed, "examples"))
    if sum(sum(lengths) >= 2 for lengths in corpus) < 2:
        assert not examples, "a random B needs another document that has pairs"
        return
    covered = dict.fromkeys(bounds, 0)
    for example in examples:
        a, b = example.a_stop - example.a_start, example.b_stop - example.b_start
        assert a > 0
        assert b > 0
        assert a + b <= limit
        assert 0 < example.b_start < example.b_stop <= bounds[example.b_document][-1]
        assert example.is_random == (example.b_document != example.a_document)
        ends = bounds[example.a_document]
        if not example.is_random:
            assert example.a_stop == example.b_start, "the true partner does not follow A"
        if any(example.a_start < end < example.a_stop for end in ends) or not example.is_random:
            halved = not any(example.a_start < end < max(example.a_stop, example.b_stop) for end in ends)
            assert example.a_stop in ends or halved, "A ends inside a sentence though one ends in its span"
        # A halved sentence with a random partner leaves its second half to another epoch.
        assert example.a_start - covered[example.a_document] <= limit // 2, "text was skipped"
        covered[example.a_document] = max(covered[example.a_document], example.a_stop)
        if not example.is_random:
            covered[example.a_document] = max(covered[example.a_document], example.b_stop)
    for document, edges in bounds.items():
        assert edges[-1] - covered[document] <= limit // 2 + 1


def test_half_of_the_partners_are_random():
    rng = np.random.default_rng(0)
    corpus = [rng.integers(3, 60, size=rng.integers(8, 40)).tolist() for _ in range(2000)]
    examples = plan_pairs(bounds_of(corpus), 125, 0.1, generator(3, "examples"))
    assert len(examples) > 10_000
    assert abs(np.mean([example.is_random for example in examples]) - 0.5) < 0.01
