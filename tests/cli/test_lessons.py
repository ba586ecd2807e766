"""`maskwright lessons`: list, run, JSON, the page, and the exit code."""

import json
from pathlib import Path

import pytest

from lessons.breaking import break_function
from maskwright.lessons.catalog import lessons
from report.html_reading import read_html

FEW = ("toy-scores", "bpe-merges", "bert-sizes")


def test_the_list_names_every_lesson(maskwright):
    code, out, _ = maskwright("lessons", "--json")
    assert code == 0 and [one["name"] for one in json.loads(out)] == list(lessons())
    code, out, _ = maskwright("lessons")
    assert code == 0 and "bpe-merges" in out and "tie_break" in out


def test_one_lesson_tells_all(maskwright):
    code, out, _ = maskwright("lessons", "toy-scores")
    assert code == 0
    source = "maskwright.lessons.parts"
    for words in (".87 .12 .01 0", "0.8808, 0.1192", "weights are approximate", "Question:", source):
        assert words in out


def test_a_wrong_number_is_exit_code_1_and_is_named(maskwright, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    break_function(monkeypatch, "lessons.parts:attention_weights")
    page = tmp_path / "lessons.html"
    code, out, _ = maskwright("lessons", *FEW, "-o", page)
    assert code == 1 and "2 of 3 lessons hold" in out and "NO" in out
    text = read_html(page.read_text(encoding="utf-8")).text
    assert "Some numbers are wrong" in text and "wrong" in text


def test_an_unknown_lesson_is_bad_usage(refused):
    refused("toy-scores", "lessons", "toy-score")


def test_the_page_holds_everything(maskwright, tmp_path: Path):
    names = FEW
    page = tmp_path / "lessons.html"
    assert maskwright("lessons", *names, "-o", page)[0] == 0
    html = page.read_text(encoding="utf-8")
    tree = read_html(html)
    for name in names:
        one = lessons()[name]
        assert one.title in tree.text and one.question in tree.text and one.topic in tree.text
    assert len(tree.all("details", "code")) == sum(len(lessons()[name].functions) for name in names)
    assert len(tree.all("details", "folded")) == len(names)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("saturation", "--set", "matrix=1 x"), "matrix, row 1: 'x' is not a number"),
        (("warm-up", "--set", "warmup=5"), "warmup is 5; pass an integer from 100 to 20,000"),
        (("warm-up", "--set", "warm=500"), "Did you mean 'warmup'"),
        (("warm-up", "--set", "500"), "--set expects NAME=VALUE, not '500'"),
        (("all", "--set", "text=x"), "Unknown input 'text' in the lesson"),
    ],
)
def test_values_that_a_lesson_does_not_take_are_bad_usage(refused, given: tuple[str, ...], said: str):
    refused(said, "lessons", *given)
