"""Clusters: groups that are there are found, numbered by size, described, and the same for one seed."""

import json
import sys

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score, silhouette_score

from maskwright.core.errors import ConfigError, InputError, MissingExtraError
from maskwright.core.randomness import generator
from maskwright.inference.cluster import cluster_vectors, nearest, project, typical_words, unit_vectors

TOPICS = ["the cat and the dog", "rain and snow fell", "bread with butter"]


def three_groups(sizes=(30, 20, 10)):
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
    assert np.bincount(found.groups).tolist() == [30, 20, 10] and max(found.tried, key=found.tried.get) == 3
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


def test_numbers_that_cannot_be_are_refused():
    vectors, texts, _ = three_groups((4, 1, 1))
    with pytest.raises(ConfigError, match="9 clusters do not fit 6"):
        cluster_vectors(vectors, texts, 9)
    with pytest.raises(InputError, match="at least three"):
        cluster_vectors(np.ones((5, 2)), ["a"] * 5)
    assert typical_words(["!", "?", "1"], np.array([0, 1, 0])) == [[], []]


# -- maps ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def vectors():
    source = np.random.default_rng(0)
    centers = source.normal(size=(3, 8))
    return (centers[np.repeat(range(3), 20)] + 0.1 * source.normal(size=(60, 8))).astype(np.float32)


def test_principal_components_keep_the_variance_that_they_name(vectors):
    unit = unit_vectors(vectors)
    centered = unit - unit.mean(axis=0)
    for dimensions in (2, 3):
        found = project(vectors, "pca", dimensions)
        assert found.places.shape == (60, dimensions) and found.places.dtype == np.float32
        kept = found.places.var(axis=0) / centered.var(axis=0).sum()
        assert found.shares == pytest.approx(kept, rel=1e-4)
        # The order of the texts does not mirror the map.
        mirrored = project(vectors[::-1].copy(), "pca", dimensions).places[::-1]
        assert mirrored == pytest.approx(found.places, abs=1e-4)


def test_the_nearest_texts_are_those_with_the_largest_cosines(vectors):
    found = nearest(vectors, 25, 19)
    assert {index for index, _ in found} == set(range(20, 40)) - {25}
    cosines = [cosine for _, cosine in found]
    assert cosines == sorted(cosines, reverse=True)
    one, other = vectors[25], vectors[found[0][0]]
    assert cosines[0] == pytest.approx(one @ other / np.linalg.norm(one) / np.linalg.norm(other), abs=1e-5)
    assert len(nearest(vectors, 0, 500)) == 59


def test_the_real_umap_keeps_groups_together(vectors):
    pytest.importorskip("umap", reason="the extra 'umap' is not installed")
    places = project(vectors, "umap", 2).places
    groups = np.repeat(range(3), 20)
    for index in range(60):
        order = np.argsort(((places - places[index]) ** 2).sum(axis=1))[1:6]
        assert (groups[order] == groups[index]).mean() > 0.5


def test_what_cannot_be_projected(vectors, monkeypatch):
    with pytest.raises(InputError, match="at least four texts, not 3"):
        project(vectors[:3])
    with pytest.raises(ConfigError, match="tsne"):
        project(vectors, "tsne")
    monkeypatch.setitem(sys.modules, "umap", None)
    with pytest.raises(MissingExtraError, match=r"maskwright\[umap\]"):
        project(vectors, "umap")
