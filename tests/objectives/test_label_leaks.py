"""What tells the label of a pair must be its meaning: lengths, places and ragged ends alone must not.

A gradient-boosted classifier sees all of that and no text. The corpora are token counts of sentences.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

from maskwright.core.randomness import generator
from maskwright.objectives.segments import Example, plan_ordered, plan_pairs, sentence_bounds

Corpus = list[list[int]]

CHANCE = 0.52  # 20,000 examples, half of them to be classified: four standard errors above one half
WANTED = 20_000
LIMIT = 125


# Of each shape of corpus: documents, sentences of one (from, below), tokens of a sentence (from, below).
SHAPES = {
    "short": (3000, (2, 6), (3, 40)),
    "two sentences": (4000, (2, 3), (3, 40)),
    "one sentence": (6000, (1, 2), (3, 60)),
    "long": (60, (100, 400), (3, 60)),
    "paragraphs": (1000, (1, 6), (50, 400)),
    "few": (600, (2, 20), (3, 40)),
    "mixed": (800, (1, 150), (3, 60)),
}


def _corpus(shape: str, seed: int) -> Corpus:
    rng = np.random.default_rng(seed)
    documents, sentences, tokens = SHAPES[shape]
    low, high = np.log(sentences)  # short documents are more common than long ones
    sizes = np.minimum(np.exp(rng.uniform(low, high, size=documents)).astype(int), sentences[1] - 1)
    return [rng.integers(*tokens, size=size).tolist() for size in sizes.tolist()]


def _examples(shape: str, plan: Callable[..., list[Example]]) -> list[tuple[Example, list[int], list[int]]]:
    """Examples with the sentence bounds of A's and B's document, shuffled; of as many corpora as it takes."""
    found = []
    for seed in count():
        bounds = {number: sentence_bounds(np.array(lengths)) for number, lengths in enumerate(_corpus(shape, seed))}
        examples = plan(bounds, LIMIT, 0.1, generator(seed, "examples"))
        found += [(one, bounds[one.a_document], bounds[one.b_document]) for one in examples]
        if len(found) >= WANTED:
            break
    order = np.random.default_rng(1).permutation(len(found))[:WANTED]
    return [found[place] for place in order]


def _place(start: int, stop: int, edges: list[int]) -> list[float]:
    """All that can be said of a span in its document without its text."""
    size = edges[-1]
    ragged = [start in edges, stop in edges]
    sentence = np.searchsorted(edges, start)
    return [start, stop, start / size, stop / size, size - stop, size, len(edges), sentence, *ragged]


def _accuracy(features: list[list[float]], labels: list[bool]) -> float:
    table, wanted, half = np.array(features, dtype=float), np.array(labels), len(labels) // 2
    classifier = HistGradientBoostingClassifier(max_iter=40, random_state=0).fit(table[:half], wanted[:half])
    return float((classifier.predict(table[half:]) == wanted[half:]).mean())


@pytest.mark.parametrize("shape", SHAPES)
def test_places_and_lengths_do_not_tell_a_random_b(shape: str):
    """With the place of A and that of B both known the question is whether they touch, so one of them is known."""
    labels, given_a, given_b = [], [], []
    for one, a_edges, b_edges in _examples(shape, plan_pairs):
        a, b = one.a_stop - one.a_start, one.b_stop - one.b_start
        labels.append(one.is_random)
        given_a.append([a, b, a + b, a - b, *_place(one.a_start, one.a_stop, a_edges)])
        given_b.append([a, b, a + b, a - b, *_place(one.b_start, one.b_stop, b_edges)])
    assert abs(np.mean(labels) - 0.5) < 0.015
    assert _accuracy(given_b, labels) < CHANCE
    assert _accuracy(given_a, labels) < CHANCE


@pytest.mark.parametrize("shape", SHAPES)
def test_lengths_and_ragged_ends_do_not_tell_swapped_segments(shape: str):
    labels, features = [], []
    for one, edges, _ in _examples(shape, plan_ordered):
        a, b = one.a_stop - one.a_start, one.b_stop - one.b_start
        ends = [place in edges for place in (one.a_start, one.a_stop, one.b_start, one.b_stop)]
        labels.append(one.is_swapped)
        features.append([a, b, a + b, a - b, *ends])
    assert abs(np.mean(labels) - 0.5) < 0.015
    assert _accuracy(features, labels) < CHANCE
