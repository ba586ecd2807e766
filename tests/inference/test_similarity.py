"""Cosine similarities: whole texts, one word in several sentences, and static word embeddings."""

import numpy as np
import pytest

from inference.samples import TEXTS, tiny
from maskwright.api import open_embedder
from maskwright.core.errors import ConfigError, InputError, RowErrors
from maskwright.inference.embed import TextEncoder
from maskwright.inference.similarity import (
    Similarities,
    TextOccurrence,
    cosine_matrix,
    text_similarities,
    word_similarities,
)
from maskwright.tasks.examples import rows_of
from minilm import minilm_folder

BANK = (
    "bank",
    [
        "We walked along the bank of the river.",
        "The boat was tied to the river bank.",
        "He opened an account at the bank.",
        "The bank refused to lend him money.",
        "The hospital ran a blood bank.",
        "The blood bank needs more donors.",
    ],
    [0, 0, 1, 1, 2, 2],
)


def test_the_matrix_is_symmetric_with_ones_on_its_diagonal():
    matrix = text_similarities(TextEncoder(tiny()), [text for text in TEXTS if text]).matrix
    assert np.array_equal(matrix, matrix.T) and np.array_equal(np.diag(matrix), np.ones(len(matrix)))
    assert matrix.min() >= -1 and matrix.max() <= 1
    by_hand = cosine_matrix(np.array([[3.0, 4.0], [4.0, 3.0], [-3.0, -4.0]]))
    assert by_hand == pytest.approx(np.array([[1, 0.96, -1], [0.96, 1, -0.96], [-1, -0.96, 1]]))


def test_two_places_of_a_word_in_one_text_are_two_rows():
    found = word_similarities(
        TextEncoder(tiny(), pooling="none"), rows_of(["the cat sat on the mat", "on the mat"]), "the"
    )
    assert [place.name for place in found.places] == ["1#1", "1#2", "2"]
    assert [place.shown for place in found.places][1] == "the cat sat on [the] mat"
    assert found.static == pytest.approx(np.ones((3, 3))) and found.matrix[0, 1] < 0.999


def test_texts_without_the_word_are_all_named_or_left_out():
    encoder, rows = TextEncoder(tiny(), pooling="none", max_length=6), rows_of(["a mat", "rain", "dogs", "a mat"])
    with pytest.raises(RowErrors) as caught:
        word_similarities(encoder, rows, "mat")
    assert [error.line for error in caught.value.rows] == [2, 3]
    left = word_similarities(encoder, rows, "mat", skip_missing=True)
    assert (left.skipped, [place.number for place in left.places]) == (2, [1, 4])
    with pytest.raises(InputError, match="None of the texts"):
        word_similarities(encoder, rows, "tree", skip_missing=True)
    with pytest.raises(RowErrors, match="after the maximum of 6 tokens"):
        word_similarities(encoder, rows_of(["the the the the the mat", "a mat"]), "mat")
    with pytest.raises(ConfigError, match="empty"):
        word_similarities(encoder, rows, " ")


def test_one_sense_lies_above_another_in_the_last_four_layers():
    word, texts, senses = BANK
    encoder = open_embedder(minilm_folder(), layers="concat-last-4", pooling="none", precision="fp32", device="cpu")
    found = word_similarities(encoder, rows_of(texts), word)
    assert found.static == pytest.approx(np.ones((6, 6))), "one word, one row of the table"
    above = np.triu_indices(6, 1)
    same = np.equal.outer(senses, senses)[above]
    assert found.matrix[above][same].min() > found.matrix[above][~same].max()


@pytest.mark.parametrize("count", [1, 2, 9])
def test_the_plane_is_that_of_principal_components(count):
    from sklearn.decomposition import PCA

    vectors = np.random.default_rng(count).normal(size=(count, 20))
    places, shares = Similarities([TextOccurrence("", 1)] * count, cosine_matrix(vectors)).plane()
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    assert places.shape == (count, 2)
    if count < 3:
        assert places[:, 1] == pytest.approx(0, abs=1e-6)
        return
    pca = PCA(2, svd_solver="full")
    assert np.abs(places) == pytest.approx(np.abs(pca.fit_transform(unit)), abs=1e-7)
    assert shares == pytest.approx(pca.explained_variance_ratio_)
