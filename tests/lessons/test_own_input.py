"""Lessons on your own matrix or text: what they compute, and what they reject."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from maskwright.core.errors import ConfigError, InputError
from maskwright.lessons.own import MOST, OwnInput, parse_matrix
from maskwright.lessons.running import run

HI = "58 27 10 12; 27 89 31 67; 10 31 91 54; 12 67 54 92"


def test_a_matrix_is_read_from_words_or_a_file(tmp_path: Path):
    wanted = ((27.0, -1.5), (3.0, 4.0))
    assert parse_matrix("27 -1.5; 3,4") == wanted == parse_matrix("27\t-1.5\n\n3, 4\n")
    path = tmp_path / "scores.csv"
    path.write_text("27,-1.5\n3,4\n", encoding="utf-8")
    assert parse_matrix(str(path)) == wanted
    with pytest.raises(InputError, match="not a number"):
        parse_matrix(str(path), files=False)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("z 27; 1 2", "row 1: 'z' is not a number"),
        ("1 2; 3", "row 2 has 1 numbers, row 1 has 2"),
        ("1 nan", "row 1: all numbers must be finite"),
        (" ; ", "no numbers"),
        (";".join(["1"] * (MOST + 1)), f"shows {MOST} x {MOST} at most"),
    ],
)
def test_a_matrix_that_is_none_is_rejected_by_row(source: str, said: str):
    with pytest.raises(InputError, match=said):
        parse_matrix(source)


def test_the_lectures_scores_are_scaled_and_softmaxed():
    result = run("saturation", OwnInput(parse_matrix(HI), "Hi how are you"))
    assert (
        result.ok and result.is_own and [check.what[:3] for check in result.checks[:4]] == ["Hi:", "how", "are", "you"]
    )
    shares = [math.exp(one / 8) for one in (27, 89, 31, 67)]
    wanted = ", ".join(f"{one / sum(shares):.4f}" for one in shares)
    assert result.checks[1].computed == wanted
    assert "4 of 4 rows have a weight above 0.99; with it, 0 do" in result.answer
    other = run("saturation", OwnInput(parse_matrix(HI), head_dim=1))
    assert other.checks[1].computed == "0.0000, 1.0000, 0.0000, 0.0000"


def test_a_weighted_sum_takes_chinese_and_japanese_words_as_characters():
    result = run("weighted-sum", OwnInput(text="深度学习"))
    assert result.ok and result.checks[0].what == "weights of 深 度 学 习"
    assert result.checks[1].what.startswith("Vec = 0.50·深 + 0.50·度 + 0.00·学")
    equal = run("weighted-sum", OwnInput(((1.0, 1.0),), "ねこ"))
    assert equal.checks[0].computed == "0.50, 0.50"


def test_rows_of_a_printed_table_are_summed_and_a_row_that_is_none_fails():
    result = run("attention-table", OwnInput(((0.33, 0.33, 0.33), (0.5, 0.25, 0.25), (0.9, 0.5, 0.1))))
    assert [(check.computed, check.ok) for check in result.checks] == [("0.99", True), ("1.00", True), ("1.50", False)]
    assert not result.ok
    assert run("attention-table", OwnInput(text="我爱 natural language")).checks[0].computed == "5, 5"


@pytest.mark.parametrize(
    ("name", "own", "said"),
    [
        ("saturation", OwnInput(text="Hi"), "needs a matrix"),
        ("saturation", OwnInput(((1.0, 2.0),), "one two three"), "3 words, the matrix 2 columns"),
        ("weighted-sum", OwnInput(text="one"), "two words or more"),
        ("weighted-sum", OwnInput(((1.0, 2.0),), "one two three"), "3 words, the matrix 1 x 2"),
        ("attention-table", OwnInput(text="x " * (MOST + 1)), f"shows {MOST} at most"),
    ],
)
def test_what_does_not_fit_a_lesson_is_rejected(name: str, own: OwnInput, said: str):
    with pytest.raises(InputError, match=said):
        run(name, own)


def test_a_lesson_without_inputs_names_those_that_have_them():
    with pytest.raises(ConfigError, match=r"takes no text of your own; these do: weighted-sum, saturation"):
        run("bpe-merges", OwnInput(text="x"))
