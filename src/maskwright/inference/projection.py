"""Projects embeddings to two or three dimensions: principal components, or UMAP (McInnes et al. 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from ..core.errors import ConfigError, InputError, MissingExtraError
from ..core.registry import unknown_name

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
    """Project embeddings, float [texts, size], to `dimensions`: 2 or 3.

    Vectors are scaled to unit length first, so distances follow cosine similarity. Raises ConfigError for another
    method, InputError for fewer than four texts, MissingExtraError without the package of UMAP.
    """
    if method not in METHODS:
        raise ConfigError(unknown_name("projection", method, METHODS))
    if len(vectors) < 4:
        raise InputError(f"A map requires at least four texts, not {len(vectors)}.")
    unit = unit_vectors(vectors)
    if method == "pca":
        from sklearn.decomposition import PCA

        pca = PCA(dimensions, random_state=seed, svd_solver="full" if len(unit) < 5000 else "auto")
        return Projection(
            _same_signs(pca.fit_transform(unit), pca.components_), tuple(pca.explained_variance_ratio_.tolist())
        )
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
    """Return the texts nearest to one of them by cosine similarity, without itself, nearest first.

    vectors: float [texts, size].
    """
    unit = unit_vectors(vectors)
    cosines = unit @ unit[index]
    order = np.argsort(-cosines, kind="stable")
    return [(int(other), float(cosines[other])) for other in order[: count + 1].tolist() if other != index][:count]


def unit_vectors(vectors: np.ndarray) -> np.ndarray:
    """Scale vectors, float [texts, size], to unit length."""
    scaled: np.ndarray = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return scaled


def _same_signs(places: np.ndarray, components: np.ndarray) -> np.ndarray:
    """Return places whose axes do not depend on the signs that the decomposition happens to give."""
    largest = np.abs(components).argmax(axis=1)
    signs = np.sign(components[np.arange(len(components)), largest])
    return np.asarray(places * signs, dtype=np.float32)
