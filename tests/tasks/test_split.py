"""Held-out rows: the share, the proportions of the labels, and no text on both sides."""

import random
import time
from collections import Counter

import pytest

from maskwright.core.errors import InputError
from maskwright.tasks.classification import Classification
from maskwright.tasks.qa.task import QuestionAnswering
from maskwright.tasks.regression import Regression
from maskwright.text.fingerprints import group_rows, hold_out
from maskwright.text.readers.squad import Question
from maskwright.text.readers.tables import Row

WORDS = [first + last for first in ("ba", "de", "ki", "lo", "mu", "pra") for last in ("n", "r", "st", "lk", "x")]


def texts(count, seed=0, words=9):
    draw = random.Random(seed)
    return [(" ".join(draw.choices(WORDS, k=words)), None) for _ in range(count)]


@pytest.mark.parametrize(
    ("sizes", "name"),
    [
        ([2] * 100, "classes of two rows"),
        ([4] * 60, "classes of four rows"),
        ([1] * 40 + [60], "classes of one row"),
        ([500, 20, 5, 2], "rare classes"),
        ([50, 50], "two classes"),
    ],
)
@pytest.mark.compatibility(
    "scikit-learn",
    theirs="train_test_split(stratify=) refuses a class of one row, and a test part smaller than the number of classes",
    ours="a tenth is held out whatever the classes; each class keeps a row for training",
)
def test_a_tenth_is_held_out_however_many_classes_there_are(sizes, name):
    labels = [(str(label),) for label, size in enumerate(sizes) for _ in range(size)]
    held = hold_out(labels, texts(len(labels)), 0.1, 3)
    assert abs(len(held) - len(labels) / 10) <= 1, name
    counts = Counter(labels[row][0] for row in held)
    for label, size in enumerate(sizes):
        assert counts[str(label)] < size
        if size >= 20:
            assert abs(counts[str(label)] - size / 10) <= max(1, size / 10)
    assert held == hold_out(labels, texts(len(labels)), 0.1, 3) != hold_out(labels, texts(len(labels)), 0.1, 4)


@pytest.mark.compatibility(
    "scikit-learn",
    theirs="splits multi-label rows at random, or by whole combination as train_test_split(stratify=) sees them",
    ours="each label has its share of the held-out rows (iterative stratification)",
)
def test_each_of_several_labels_is_held_out_in_proportion():
    draw = random.Random(1)
    labels = [[label for label in "abcdefgh" if draw.random() < 0.06 * (ord(label) - 94)] for _ in range(1000)]
    held = hold_out(labels, texts(1000), 0.1, 0)
    counts, every = (Counter(label for row in rows for label in labels[row]) for rows in (held, range(1000)))
    assert 90 <= len(held) <= 110
    for label, count in every.items():
        assert abs(counts[label] - count / 10) <= 0.02 * count + 2
    unique = [[str(number), f"{number + 1}"] for number in range(100)]  # every combination occurs once
    assert 5 <= len(hold_out(unique, texts(100), 0.1, 0)) <= 11


def test_equal_and_nearly_equal_texts_are_on_one_side():
    base = texts(200, words=20)
    rows = [*base, *((text.upper() + " !", None) for text, _ in base), *((text + " again", None) for text, _ in base)]
    held = hold_out([(str(row % 3),) for row in range(600)], rows, 0.1, 0)
    assert 50 <= len(held) <= 70
    assert {row % 200 for row in held}.isdisjoint(row % 200 for row in set(range(600)) - held)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("Der Termin am Montag wurde leider kurzfristig abgesagt, sagt Anna.", None),
         ("der  termin am montag wurde leider kurzfristig verlegt, sagt anna", None)),
        (("我昨天在北京买了一本新书。", None), ("我昨天在北京买了一本旧书", None)),
        (("A man sleeps.", "A man is asleep."), ("a man is asleep", "A MAN SLEEPS")),
    ],
)  # fmt: skip
def test_nearly_equal_texts_of_any_script_are_one_group(one, other):
    group = group_rows([one, *texts(50), other], 5).tolist()
    assert group[0] == group[-1] and len(set(group)) == 51


def test_rows_of_one_group_are_on_one_side():
    groups = [f"person {row % 37}" for row in range(400)]
    held = hold_out([(str(row % 2),) for row in range(400)], texts(400), 0.1, 0, groups)
    assert 30 <= len(held) <= 50
    assert {groups[row] for row in held}.isdisjoint(groups[row] for row in set(range(400)) - held)


def test_rows_of_one_template_can_be_divided():
    rows = [(f"{' '.join(WORDS)} number {row}", None) for row in range(300)]  # all are nearly equal
    assert 25 <= len(hold_out([()] * 300, rows, 0.1, 0)) <= 35


@pytest.mark.parametrize(
    ("labels", "rows"),
    [
        ([("a",)] * 10 + [("b",)] * 10, [("one text", None)] * 10 + [("another", None)] * 10),
        ([(str(row),) for row in range(12)], texts(12)),
    ],
    ids=["one text a label", "one row a label"],
)
def test_rows_that_cannot_be_divided_are_refused(labels, rows):
    with pytest.raises(InputError, match="no row can be held out"):
        hold_out(labels, rows, 0.1, 0)


def test_questions_about_one_context_are_on_one_side():
    contexts = [text for text, _ in texts(60, words=30)]
    rows = [Question(str(n), f"who {n}?", contexts[n // 5], (), n, "f") for n in range(300)]
    held = hold_out(QuestionAnswering.strata(rows), QuestionAnswering.texts_apart(rows), 0.1, 0)
    assert 25 <= len(held) <= 35
    assert {rows[n].context for n in held}.isdisjoint(rows[n].context for n in set(range(300)) - held)


def test_numbers_are_held_out_from_low_to_high():
    rows = [Row(text, None, str(n / 10), n, "f") for n, (text, _) in enumerate(texts(400))]
    held = hold_out(Regression.strata(rows), Regression.texts_apart(rows), 0.1, 0)
    assert Counter(n // 40 for n in held) == dict.fromkeys(range(10), 4)


def test_strata_of_several_labels_are_single_labels():
    assert Classification.strata([Row("x", None, label, 1, "f") for label in ("a|b", "", "c")]) == [
        ["a", "b"],
        [],
        ["c"],
    ]


@pytest.mark.slow
def test_a_hundred_thousand_rows_take_seconds():
    rows = texts(100_000)
    labels = [(str(n % 500),) for n in range(100_000)]
    begin = time.perf_counter()
    held = hold_out(labels, rows, 0.1, 0)
    assert abs(len(held) - 10_000) <= 20 and time.perf_counter() - begin < 30
