"""Clusters: groups that are there are found, numbered by size, described, and the same for one seed."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score, silhouette_score

import maskwright as mw
from maskwright.core.errors import ConfigError, InputError
from maskwright.core.randomness import generator
from maskwright.inference.cluster import cluster_vectors, typical_words
from minilm import minilm_folder

TOPICS = ["the cat and the dog", "rain and snow fell", "bread with butter"]


def three_groups(sizes=(30, 20, 10)):
    """Vectors around three directions, with texts of three topics; the gold group of each."""
    draws = generator(0, "groups")
    gold = np.repeat(np.arange(3), sizes)[draws.permutation(sum(sizes))]
    vectors = np.eye(8)[gold] * 3 + draws.normal(size=(len(gold), 8)) * 0.3
    return vectors, [f"{TOPICS[group]} {number}" for number, group in enumerate(gold)], gold


@pytest.mark.parametrize("num_clusters", [3, None])
def test_groups_that_are_there_are_found(num_clusters):
    vectors, texts, gold = three_groups()
    found = cluster_vectors(vectors, texts, num_clusters)
    assert adjusted_rand_score(gold, found.groups) == 1.0
    assert [own.size for own in found.clusters] == [30, 20, 10]
    assert np.bincount(found.groups).tolist() == [30, 20, 10]
    assert max(found.tried, key=found.tried.get) == 3
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    assert found.silhouette == pytest.approx(silhouette_score(unit, found.groups, metric="cosine"))


def test_clusters_are_described_by_their_nearest_texts_and_typical_words():
    vectors, texts, gold = three_groups()
    found = cluster_vectors(vectors, texts, 3)
    for number, topic in enumerate(TOPICS):
        own = found.clusters[number]
        assert all(gold[index] == number for index in own.nearest)
        assert found.cosines[own.nearest[0]] == pytest.approx(found.cosines[found.groups == number].max())
        assert {"cat", "dog"} <= set(own.words) if number == 0 else set(own.words) & set(topic.split())
    assert "and" not in found.clusters[2].words
    assert json.loads(json.dumps(found.to_json(texts)))["texts"] == 60


def test_the_map_is_the_first_two_principal_components():
    vectors, texts, _ = three_groups()
    found = cluster_vectors(vectors, texts, 3)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    centered = unit - unit.mean(axis=0)
    values = np.linalg.svd(centered, compute_uv=False) ** 2
    assert np.abs(found.places.T @ found.places - np.diag(values[:2])).max() < 1e-6
    assert found.shares == pytest.approx(values[:2] / values.sum())


def test_the_seed_decides_all():
    vectors, texts, _ = three_groups()
    one, other = (cluster_vectors(vectors, texts, 5, seed=4) for _ in range(2))
    assert np.array_equal(one.groups, other.groups)


def test_numbers_that_cannot_be_are_refused():
    vectors, texts, _ = three_groups((4, 1, 1))
    with pytest.raises(ConfigError, match="9 clusters do not fit 6"):
        cluster_vectors(vectors, texts, 9)
    with pytest.raises(InputError, match="at least three"):
        cluster_vectors(np.ones((5, 2)), ["a"] * 5)


def test_texts_without_words_have_no_typical_ones():
    assert typical_words(["!", "?", "1"], np.array([0, 1, 0])) == [[], []]


def test_texts_on_three_matters_fall_apart():
    texts = [
        "The cat sleeps on the sofa.", "My dog likes long walks.", "Kittens and puppies play together.",
        "The stock market fell today.", "Shares rose after the bank's report.", "Investors sold their bonds.",
        "The striker scored two goals.", "The match ended in a draw.", "The coach praised the goalkeeper.",
    ]  # fmt: skip
    found = mw.cluster(minilm_folder(), texts, 3)
    assert adjusted_rand_score(np.repeat(np.arange(3), 3), found.groups) == 1.0
