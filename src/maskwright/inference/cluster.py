"""Groups of texts that are near in meaning: k-means on unit vectors, with what is typical of each group.

On unit vectors k-means minimises 2 - 2 cos to the centre's direction, near spherical k-means (Dhillon and Modha 2001).
How far apart the groups are is told by the silhouette (Rousseeuw 1987), -1 to 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.errors import ConfigError, InputError
from ..core.progress import track
from ..core.randomness import derive_seed

AUTO_TO = 12  # clusters that "auto" tries, from 2 on
SAMPLE = 2000  # texts by which the silhouette is judged, at most
NEAREST, WORDS = 5, 8
RARE = 1e-3  # added to mean TF-IDF, so that a word that is elsewhere nowhere does not win by that alone
STARTS = 4  # of k-means; the best is kept


@dataclass(frozen=True)
class Cluster:
    """size: its texts; nearest: numbers of the texts nearest to its centre, nearest first; words: typical of it;
    silhouette: mean over its texts of those that were sampled, 0.0 where none was.
    """

    size: int
    nearest: list[int]
    words: list[str]
    silhouette: float


@dataclass(frozen=True)
class Clustering:
    """groups: int64 [texts], the largest cluster is 0; cosines: float64 [texts], of each text with its centre; places:
    float64 [texts, 2], the first two principal components; shares: of the variance that they hold; tried: clusters ->
    silhouette, of all numbers that were tried.
    """

    clusters: list[Cluster]
    groups: np.ndarray
    cosines: np.ndarray
    places: np.ndarray
    shares: tuple[float, float]
    silhouette: float
    tried: dict[int, float]

    def to_json(self, texts: Sequence[str]) -> dict[str, Any]:
        """What `cluster --json` prints."""
        return {
            "clusters": [
                {
                    "cluster": number,
                    "size": own.size,
                    "words": own.words,
                    "nearest": [texts[index] for index in own.nearest],
                    "silhouette": own.silhouette,
                }
                for number, own in enumerate(self.clusters, start=1)
            ],
            "silhouette": self.silhouette,
            "tried": {str(count): value for count, value in self.tried.items()},
            "texts": len(texts),
        }


def cluster_vectors(
    vectors: np.ndarray, texts: Sequence[str], num_clusters: int | None = None, *, seed: int = 0
) -> Clustering:
    """Group texts by their vectors, float [texts, size].

    num_clusters: None for the number from 2 to 12 with the best silhouette. Raises ConfigError where there are not so
    many different texts.
    """
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    different = len(np.unique(unit.round(5), axis=0))
    if different < 3:
        raise InputError(f"There are {different} different texts; groups need at least three.")
    if num_clusters is not None and not 2 <= num_clusters < different:
        raise ConfigError(
            f"{num_clusters} clusters cannot be made of {different} different texts: take 2 to {different - 1}."
        )
    counts = [num_clusters] if num_clusters else range(2, min(AUTO_TO, different - 1) + 1)
    sample = _sample(len(unit), seed)
    tried: dict[int, float] = {}
    best: tuple[float, np.ndarray, np.ndarray] | None = None
    with track("clustering", len(counts), "numbers of clusters") as progress:
        for done, count in enumerate(counts, start=1):
            groups, centres = _k_means(unit, count, seed)
            values = _silhouettes(unit, groups, sample)
            tried[count] = float(values.mean())
            if best is None or tried[count] > best[0]:
                best = (tried[count], groups, centres)
            progress.update(done, f"{count} clusters: {tried[count]:.3f}")
    assert best is not None
    return _described(unit, texts, *_by_size(best[1], best[2]), tried, sample)


def _k_means(unit: np.ndarray, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Group of each text, int64 [texts], and unit centres, float [clusters, size]."""
    from sklearn.cluster import KMeans

    random_state = derive_seed(seed, "k-means", count) % (1 << 32)
    found = KMeans(count, n_init=STARTS, random_state=random_state).fit(unit)
    centres = found.cluster_centers_
    lengths = np.maximum(np.linalg.norm(centres, axis=1, keepdims=True), 1e-12)
    return found.labels_.astype(np.int64), centres / lengths


def _by_size(groups: np.ndarray, centres: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same with the largest cluster first; groups that stayed empty are gone."""
    sizes = np.bincount(groups, minlength=len(centres))
    order = [group for group in np.argsort(-sizes, kind="stable") if sizes[group]]
    number = np.zeros(len(centres), dtype=np.int64)
    number[order] = np.arange(len(order))
    return number[groups], centres[order]


def _sample(count: int, seed: int) -> np.ndarray:
    """Numbers of the texts that judge, in order: int64 [sample]."""
    from ..core.randomness import generator

    chosen: np.ndarray = np.arange(count)
    return chosen if count <= SAMPLE else np.sort(generator(seed, "silhouette").choice(count, SAMPLE, replace=False))


def _silhouettes(unit: np.ndarray, groups: np.ndarray, sample: np.ndarray) -> np.ndarray:
    """Of the sampled texts among themselves, by cosine distance: float64 [sample]."""
    from sklearn.metrics import silhouette_samples

    own = groups[sample]
    if not 2 <= len(np.unique(own)) < len(own):
        return np.zeros(len(own))
    values: np.ndarray = silhouette_samples(unit[sample], own, metric="cosine")
    return values


def _described(
    unit: np.ndarray,
    texts: Sequence[str],
    groups: np.ndarray,
    centres: np.ndarray,
    tried: dict[int, float],
    sample: np.ndarray,
) -> Clustering:
    from sklearn.decomposition import PCA

    cosines = (unit * centres[groups]).sum(axis=1).astype(np.float64)
    values = _silhouettes(unit, groups, sample)
    words = typical_words(texts, groups)
    clusters = []
    for number in range(len(centres)):
        own = np.flatnonzero(groups == number)
        judged = values[groups[sample] == number]
        nearest = own[np.argsort(-cosines[own], kind="stable")][:NEAREST].tolist()
        mean = float(judged.mean()) if len(judged) else 0.0
        clusters.append(Cluster(len(own), nearest, words[number], mean))
    pca = PCA(2, random_state=0, svd_solver="full" if len(unit) < 5000 else "auto")
    places = pca.fit_transform(unit).astype(np.float64)
    first, second = pca.explained_variance_ratio_.tolist()
    return Clustering(clusters, groups, cosines, places, (first, second), float(values.mean()), tried)


def typical_words(texts: Sequence[str], groups: np.ndarray) -> list[list[str]]:
    """For each group the words whose mean TF-IDF in it is above that elsewhere, by how much and by how many times.

    groups: int64 [texts]. The product of difference and log ratio keeps common words back without a list of them.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    count = int(groups.max()) + 1
    try:
        vectorizer = TfidfVectorizer(sublinear_tf=True, max_features=50_000)
        table = vectorizer.fit_transform(texts)  # sparse [texts, words]
    except ValueError:  # no text has a word of two letters
        return [[] for _ in range(count)]
    names = vectorizer.get_feature_names_out()
    total = np.asarray(table.sum(axis=0)).ravel()
    found = []
    for group in range(count):
        own = groups == group
        inside = np.asarray(table[own].sum(axis=0)).ravel()
        here, elsewhere = inside / own.sum(), (total - inside) / max((~own).sum(), 1)
        gain = (here - elsewhere) * np.log((here + RARE) / (elsewhere + RARE)) * (here > elsewhere)
        best = [place for place in np.argsort(-gain, kind="stable")[:WORDS] if gain[place] > 0]
        found.append([str(names[place]) for place in best])
    return found
