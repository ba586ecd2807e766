"""Maps of embeddings: principal components as by their definition, neighbors by cosine, UMAP through its library."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from maskwright.core.errors import ConfigError, InputError, MissingExtraError
from maskwright.inference.cluster import nearest, project, unit_vectors


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


def test_umap_gets_unit_vectors_and_a_seed(vectors, monkeypatch):
    given = {}

    class Recorded:
        def __init__(self, **options):
            given.update(options)

        def fit_transform(self, unit):
            given["lengths"] = np.linalg.norm(unit, axis=1)
            return unit[:, : given["n_components"]]

    monkeypatch.setitem(sys.modules, "umap", SimpleNamespace(UMAP=Recorded))
    found = project(vectors[:5], "umap", 3, seed=4)
    assert found.places.shape == (5, 3) and found.shares == ()
    assert given.pop("lengths") == pytest.approx(1.0)
    assert given["n_neighbors"] == 4 and given["init"] == "random" and given["random_state"] == 4
    assert given["metric"] == "cosine"


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
