"""How well static word embeddings predict the words of their corpus."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..against_baseline import Compared

MAX_WORDS = 20_000  # words scored
METRIC = "accuracy at choosing the word of the corpus"
BASELINE = "choosing between it and a random word by chance"


def static_score(trained: Any, sentences: Iterable[list[str]], seed: int) -> Compared:
    """Return how often a word of the corpus scores above a random word, given the words around it.

    The score is the network's own: the mean of the input embeddings of the context, times the output embedding of the
    word. The random word is drawn with the frequency of the corpus, so word frequency alone gives 0.5. No text is held
    out: every word of the corpus gets a vector, whatever its frequency.

    Args:
        trained: a `gensim.models.Word2Vec`, trained with negative sampling.
        sentences: words of the corpus, as passed to the training; the first 20,000 words are scored.
        seed: of the random words.
    """
    rng = np.random.default_rng(seed)
    vectors, outputs = trained.wv.vectors, trained.syn1neg  # both [words, size]
    counts = np.array([trained.wv.get_vecattr(word, "count") for word in trained.wv.index_to_key], dtype=np.float64)
    frequencies = counts / counts.sum()
    correct, total = 0.0, 0
    for sentence in sentences:
        rows = [trained.wv.key_to_index[word] for word in sentence]
        if len(rows) < 2:
            continue
        contexts = np.stack([_context(vectors, rows, place, trained.window) for place in range(len(rows))])
        others = rng.choice(len(frequencies), size=len(rows), p=frequencies)
        margins = np.einsum("ws,ws->w", contexts, outputs[rows] - outputs[others])
        correct += float((margins > 0).sum() + 0.5 * (margins == 0).sum())
        total += len(rows)
        if total >= MAX_WORDS:
            break
    return Compared(METRIC, correct / max(total, 1), 0.5, BASELINE)


def _context(vectors: np.ndarray, rows: list[int], place: int, window: int) -> np.ndarray:
    """The mean input embedding of the words around one, [size]."""
    around = rows[max(0, place - window) : place] + rows[place + 1 : place + 1 + window]
    return vectors[around].mean(axis=0)
