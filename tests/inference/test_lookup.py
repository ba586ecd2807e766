"""A dictionary that is read by attention."""

from __future__ import annotations

import pytest

from maskwright.core.errors import InputError
from maskwright.lessons.parts import soft_lookup, spelling_vectors

TABLE = {"jack": 4098.0, "sape": 4139.0}


@pytest.mark.parametrize(("key", "value"), [("jack", 4098), ("jacky", 4098), ("sape", 4139), ("sap", 4139)])
def test_the_likest_key_answers(key: str, value: int):
    found = soft_lookup(TABLE, key)
    assert round(found.value) == value and sum(found.weights.values()) == pytest.approx(1)


def test_without_sharpness_all_values_count_alike_and_with_it_the_order_of_likeness_holds():
    assert soft_lookup(TABLE, "jacky", 0).value == pytest.approx(4118.5)
    assert soft_lookup({"jack": 1.0, "jacks": 2.0, "x": 3.0}, "jack", 3).weights["jack"] > 1 / 3


def test_a_key_that_is_like_none_gets_the_mean():
    assert soft_lookup(TABLE, "zzz").value == pytest.approx(4118.5)


def test_vectors_have_length_1_and_see_the_ends_of_words():
    vectors = spelling_vectors(["ab", "ba", "ab"])
    assert vectors.norm(dim=1).tolist() == pytest.approx([1, 1, 1]) and (
        vectors[0] @ vectors[2]
    ).item() == pytest.approx(1)
    assert (vectors[0] @ vectors[1]).item() == 0


def test_an_empty_table_is_refused():
    with pytest.raises(InputError, match="at least one key"):
        soft_lookup({}, "a")
