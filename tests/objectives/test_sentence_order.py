"""Sentence order: two neighboring segments, swapped in half of the examples."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskwright.core.errors import InputError
from maskwright.core.randomness import generator
from maskwright.objectives.segments import plan_ordered, sentence_bounds
from maskwright.objectives.stream import ExampleStream
from objectives.packing import CLS, SEP, Documents, batch_of, objective_of

CORPUS = st.lists(st.lists(st.integers(1, 60), min_size=1, max_size=12), min_size=1, max_size=8)


def bounds_of(corpus: list[list[int]]) -> dict[int, list[int]]:
    return {number: sentence_bounds(np.array(lengths)) for number, lengths in enumerate(corpus)}


@given(corpus=CORPUS, seed=st.integers(0, 100), limit=st.integers(8, 64))
def test_a_and_b_are_neighbors_and_only_lonely_sentences_lose_tokens(corpus: list[list[int]], seed: int, limit: int):
    bounds = bounds_of(corpus)
    covered = {document: np.zeros(edges[-1], dtype=int) for document, edges in bounds.items()}
    for example in plan_ordered(bounds, limit, 0.1, generator(seed, "examples")):
        a, b = (example.a_start, example.a_stop), (example.b_start, example.b_stop)
        first, second = (b, a) if example.is_swapped else (a, b)
        assert example.a_document == example.b_document and not example.is_random
        assert first[0] < first[1] == second[0] < second[1] <= first[0] + limit
        assert len({place in bounds[example.a_document] for place in (*first, *second)}) == 1, "one cut, one whole"
        covered[example.a_document][first[0] : second[1]] += 1
    for document, edges in bounds.items():
        assert covered[document].max() <= 1
        for start, stop in pairwise(edges):
            seen = covered[document][start:stop]
            most = max(min(stop - start, limit) // 8, 1)  # skipped at either end
            assert seen.all() or stop - start - seen.sum() <= 2 * most + 1, "too much of a sentence is never seen"


def test_half_are_swapped():
    examples = plan_ordered({0: list(range(0, 60_001, 6))}, 24, 0.1, generator(0, "examples"))
    share = np.mean([example.is_swapped for example in examples])
    assert abs(share - 0.5) < 4 * 0.5 / np.sqrt(len(examples))


def test_the_label_says_which_segment_stands_first_in_the_text():
    objective, documents = objective_of("mlm+sop"), Documents()
    batch = batch_of(objective)
    ids = batch.input_ids.clone()
    ids[batch.labels["mlm_positions"]] = batch.labels["mlm"]
    text = [" ".join(map(str, tokens.tolist())) for tokens in documents.tokens]
    assert set(batch.labels["sop"].tolist()) == {0, 1}
    for row, label in zip(ids.split(batch.lengths), batch.labels["sop"].tolist(), strict=True):
        body = row.tolist()
        assert (body[0], body[-1]) == (CLS, SEP)
        middle = body.index(SEP)
        a, b = body[1:middle], body[middle + 1 : -1]
        joined = " ".join(map(str, b + a if label else a + b))
        assert any(joined in document for document in text)


def test_a_text_of_single_tokens_is_refused_instead_of_waiting_for_ever():
    class Single:
        def sentence_lengths_of(self, document: int) -> np.ndarray:
            return np.array([1])

        def document_lengths(self) -> np.ndarray:
            return np.ones(4, dtype=np.int64)

    stream = ExampleStream(Single(), np.arange(4), objective_of("mlm+sop").plan, 0)
    with pytest.raises(InputError, match="no example"):
        stream.take(1)
