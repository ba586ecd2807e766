"""Clusters texts by k-means on normalized embeddings, and describes each cluster.

On unit vectors k-means approximates spherical k-means (Dhillon and Modha 2001). The quality measure is the silhouette
(Rousseeuw 1987), -1 to 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from ..core.errors import ConfigError, InputError, MissingExtraError
from ..core.progress import track
from ..core.randomness import derive_seed, generator
from ..core.registry import unknown_name

# -- Projects embeddings to two or three dimensions: principal components, or UMAP (McInnes et al. 2018) -------------


METHODS = ("pca", "umap")
NEIGHBORS = 15  # of UMAP


@dataclass(frozen=True)
class Projection:
    """Places of texts: float32 [texts, dimensions]; shares: explained variance ratios, () of UMAP."""

    places: np.ndarray
    shares: tuple[float, ...]


def has_umap() -> bool:
    """Whether the extra with UMAP is installed; the package is not imported."""
    return find_spec("umap") is not None


def project(vectors: np.ndarray, method: str = "pca", dimensions: int = 2, *, seed: int = 0) -> Projection:
    """Project embeddings, float [texts, size], of unit length, to 2 or 3 dimensions, so that distances follow cosines.

    Raises ConfigError for another method, InputError below four texts, MissingExtraError without the package of UMAP.
    """
    if method not in METHODS:
        raise ConfigError(unknown_name("projection", method, METHODS))
    if len(vectors) < 4:
        raise InputError(f"A map requires at least four texts, not {len(vectors)}.")
    unit = unit_vectors(vectors)
    if method == "pca":
        from sklearn.decomposition import PCA

        pca = PCA(dimensions, random_state=seed, svd_solver="full" if len(unit) < 5000 else "auto")
        places, components = pca.fit_transform(unit), pca.components_
        # so that the axes do not depend on the signs that the decomposition happens to give
        signs = np.sign(components[np.arange(dimensions), np.abs(components).argmax(axis=1)])
        return Projection(np.asarray(places * signs, dtype=np.float32), tuple(pca.explained_variance_ratio_.tolist()))
    try:
        import umap
    except ImportError:
        raise MissingExtraError("UMAP", "umap") from None
    model: Any = umap.UMAP(
        n_components=dimensions,
        n_neighbors=min(NEIGHBORS, len(unit) - 1),
        metric="cosine",
        init="spectral" if len(unit) > dimensions + 2 else "random",  # spectral needs more points than that
        random_state=seed,
        n_jobs=1,  # as with any random_state
    )
    return Projection(np.asarray(model.fit_transform(unit), dtype=np.float32), ())


def nearest(vectors: np.ndarray, index: int, count: int) -> list[tuple[int, float]]:
    """The texts nearest to one of them by cosine similarity, nearest first. vectors: float [texts, size]."""
    unit = unit_vectors(vectors)
    cosines = unit @ unit[index]
    order = np.argsort(-cosines, kind="stable")
    return [(int(other), float(cosines[other])) for other in order[: count + 1].tolist() if other != index][:count]


def unit_vectors(vectors: np.ndarray) -> np.ndarray:
    """Scale vectors, float [texts, size], to unit length."""
    scaled: np.ndarray = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return scaled


AUTO_TO = 12  # "auto" tries 2 to this many clusters
SAMPLE = 2000  # maximum texts for the silhouette
NEAREST, WORDS = 5, 8
SMOOTHING = 1e-3  # added to mean TF-IDF, so that words unique to a cluster are not always first
STARTS = 4  # initializations of k-means; the best is used


@dataclass(frozen=True)
class Cluster:
    """One cluster.

    size: number of texts; nearest: indices of the texts closest to the center, closest first; words: characteristic
    words; silhouette: mean over its sampled texts, 0.0 if there are none.
    """

    size: int
    nearest: list[int]
    words: list[str]
    silhouette: float


@dataclass(frozen=True)
class Clustering:
    """Result of a clustering.

    groups: cluster of each text, the largest is 0, int64 [texts]; cosines: cosine similarity to the center, float64
    [texts]; places: first two principal components, float64 [texts, 2]; shares: their explained variance ratios;
    tried: number of clusters -> silhouette.
    """

    clusters: list[Cluster]
    groups: np.ndarray
    cosines: np.ndarray
    places: np.ndarray
    shares: tuple[float, float]
    silhouette: float
    tried: dict[int, float]

    def to_json(self, texts: Sequence[str]) -> dict[str, Any]:
        """Return the output of `embed --clusters --json`."""
        return {
            "clusters": [
                {
                    "cluster": number,
                    "size": cluster.size,
                    "words": cluster.words,
                    "nearest": [texts[index] for index in cluster.nearest],
                    "silhouette": cluster.silhouette,
                }
                for number, cluster in enumerate(self.clusters, start=1)
            ],
            "silhouette": self.silhouette,
            "tried": {str(count): value for count, value in self.tried.items()},
            "texts": len(texts),
        }


def cluster_vectors(
    vectors: np.ndarray, texts: Sequence[str], num_clusters: int | None = None, *, seed: int = 0
) -> Clustering:
    """Cluster texts by their embeddings, float [texts, size].

    num_clusters: None for the number from 2 to 12 with the best silhouette. Raises ConfigError for more clusters than
    distinct texts allow, InputError for fewer than three distinct texts.
    """
    unit = unit_vectors(vectors)
    different = len(np.unique(unit.round(5), axis=0))
    if different < 3:
        raise InputError(f"Clustering requires at least three distinct texts, not {different}.")
    if num_clusters is not None and not 2 <= num_clusters < different:
        raise ConfigError(f"{num_clusters} clusters do not fit {different} distinct texts: use 2 to {different - 1}.")
    counts = [num_clusters] if num_clusters else range(2, min(AUTO_TO, different - 1) + 1)
    sample = _sample(len(unit), seed)
    tried: dict[int, float] = {}
    best: tuple[float, np.ndarray, np.ndarray] | None = None
    with track("clustering", len(counts), "numbers of clusters") as progress:
        for done, count in enumerate(counts, start=1):
            groups, centers = _k_means(unit, count, seed)
            values = _silhouettes(unit, groups, sample)
            tried[count] = float(values.mean())
            if best is None or tried[count] > best[0]:
                best = (tried[count], groups, centers)
            progress.update(done, f"{count} clusters: {tried[count]:.3f}")
    assert best is not None
    return _described(unit, texts, *_by_size(best[1], best[2]), tried, sample)


def _k_means(unit: np.ndarray, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the cluster of each text, int64 [texts], and unit centers, float [clusters, size]."""
    from sklearn.cluster import KMeans

    random_state = derive_seed(seed, "k-means", count) % (1 << 32)
    found = KMeans(count, n_init=STARTS, random_state=random_state).fit(unit)
    centers = found.cluster_centers_
    lengths = np.maximum(np.linalg.norm(centers, axis=1, keepdims=True), 1e-12)
    return found.labels_.astype(np.int64), centers / lengths


def _by_size(groups: np.ndarray, centers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Renumber the clusters by decreasing size and drop empty ones."""
    sizes = np.bincount(groups, minlength=len(centers))
    order = [group for group in np.argsort(-sizes, kind="stable") if sizes[group]]
    number = np.zeros(len(centers), dtype=np.int64)
    number[order] = np.arange(len(order))
    return number[groups], centers[order]


def _sample(count: int, seed: int) -> np.ndarray:
    """Return the sorted indices of the texts for the silhouette: int64 [sample]."""
    chosen: np.ndarray = np.arange(count)
    return chosen if count <= SAMPLE else np.sort(generator(seed, "silhouette").choice(count, SAMPLE, replace=False))


def _silhouettes(unit: np.ndarray, groups: np.ndarray, sample: np.ndarray) -> np.ndarray:
    """Return the silhouettes of the sampled texts by cosine distance: float64 [sample]."""
    from sklearn.metrics import silhouette_samples

    sampled = groups[sample]
    if not 2 <= len(np.unique(sampled)) < len(sampled):
        return np.zeros(len(sampled))
    values: np.ndarray = silhouette_samples(unit[sample], sampled, metric="cosine")
    return values


def _described(
    unit: np.ndarray,
    texts: Sequence[str],
    groups: np.ndarray,
    centers: np.ndarray,
    tried: dict[int, float],
    sample: np.ndarray,
) -> Clustering:
    from sklearn.decomposition import PCA

    cosines = (unit * centers[groups]).sum(axis=1).astype(np.float64)
    values = _silhouettes(unit, groups, sample)
    words = typical_words(texts, groups)
    clusters = []
    for number in range(len(centers)):
        members = np.flatnonzero(groups == number)
        silhouettes = values[groups[sample] == number]
        nearest = members[np.argsort(-cosines[members], kind="stable")][:NEAREST].tolist()
        mean = float(silhouettes.mean()) if len(silhouettes) else 0.0
        clusters.append(Cluster(len(members), nearest, words[number], mean))
    pca = PCA(2, random_state=0, svd_solver="full" if len(unit) < 5000 else "auto")
    places = pca.fit_transform(unit).astype(np.float64)
    first, second = pca.explained_variance_ratio_.tolist()
    return Clustering(clusters, groups, cosines, places, (first, second), float(values.mean()), tried)


def typical_words(texts: Sequence[str], groups: np.ndarray) -> list[list[str]]:
    """Return the characteristic words of each cluster, by mean TF-IDF inside and outside it.

    groups: int64 [texts]. The score is difference times log ratio, which ranks common words low without a stop list.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    count = int(groups.max()) + 1
    try:
        vectorizer = TfidfVectorizer(sublinear_tf=True, max_features=50_000)
        table = vectorizer.fit_transform(texts)  # sparse [texts, words]
    except ValueError:  # no text has a word of two or more letters
        return [[] for _ in range(count)]
    names = vectorizer.get_feature_names_out()
    total = np.asarray(table.sum(axis=0)).ravel()
    found = []
    for group in range(count):
        members = groups == group
        inside = np.asarray(table[members].sum(axis=0)).ravel()
        here, elsewhere = inside / members.sum(), (total - inside) / max((~members).sum(), 1)
        gain = (here - elsewhere) * np.log((here + SMOOTHING) / (elsewhere + SMOOTHING)) * (here > elsewhere)
        best = [index for index in np.argsort(-gain, kind="stable")[:WORDS] if gain[index] > 0]
        found.append([str(names[index]) for index in best])
    return found
