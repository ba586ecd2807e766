"""Bracketed sentiment trees: sentences and phrases in five classes and two, and what is wrong with a line."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskwright.core.errors import ConfigError, InputError, RowErrors
from maskwright.tasks.classification import Classification
from maskwright.text.readers.sentiment_trees import (
    is_treebank,
    read_sentiment_trees,
    read_treebank,
)

FILM = "(3 (2 (2 The) (2 film)) (4 (4 shines) (2 .)))"
DULL = "(1 (2 (2 The) (2 film)) (1 (1 drags) (2 .)))"
FLAT = "(2 (2 A) (2 film))"


def write(folder: Path, *lines: str) -> Path:
    path = folder / "train.txt"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def test_a_tree_gives_its_sentence_and_every_phrase(tmp_path):
    (tree,) = read_sentiment_trees(write(tmp_path, FILM)).rows
    assert tree.words == ("The", "film", "shines", ".") and tree.label == 3 and tree.line == 1
    assert list(tree.phrases()) == [
        ("The", 2),
        ("film", 2),
        ("The film", 2),
        ("shines", 4),
        (".", 2),
        ("shines .", 4),
        ("The film shines .", 3),
    ]


def test_escaped_brackets_are_brackets_again(tmp_path):
    line = "(2 (2 -LRB-) (2 (2 and\\/or) (2 (2 \\*) (2 -RRB-))))"
    assert read_sentiment_trees(write(tmp_path, line)).rows[0].words == ("(", "and/or", "*", ")")


words = st.text(st.characters(categories=("L", "N", "P"), exclude_characters="()\\"), min_size=1).filter(
    lambda word: not word.startswith("-")
)
trees = st.recursive(
    st.tuples(st.integers(0, 4), words),
    lambda below: st.tuples(st.integers(0, 4), st.tuples(below, below)),
    max_leaves=8,
)


def bracketed(tree) -> str:
    label, below = tree
    return f"({label} {below})" if isinstance(below, str) else f"({label} {' '.join(map(bracketed, below))})"


def expected(tree) -> list[tuple[str, int]]:
    """Phrases of a tree by recursion, children first."""
    label, below = tree
    if isinstance(below, str):
        return [(below, label)]
    parts = [expected(child) for child in below]
    return [*parts[0], *parts[1], (" ".join(part[-1][0] for part in parts), label)]


@given(trees)
def test_any_tree_comes_back(tmp_path_factory, tree):
    path = write(tmp_path_factory.mktemp("trees"), bracketed(tree))
    assert list(read_sentiment_trees(path).rows[0].phrases()) == expected(tree)


@pytest.mark.parametrize(
    "line, reason",
    [
        ("(3 (2 The) (2 film)", "1 brackets are not closed"),
        ("(3 (2 The) (2 film)))", "text after the end of the tree at character 21"),
        (FILM + FLAT, "text after the end"),
        ("The film", "does not begin with a bracket"),
        ("(5 film)", "has no label from 0 to 4"),
        ("(film)", "has no label"),
        ("(", "has no label"),
        ("(3 )", "has no word"),
        ("(3 (2 ) (2 film))", "has no word"),
        ("(3 The film)", "'film' at character 8 is next to"),
        ("(3 (2 The) film)", "is next to"),
        ("(3 The (2 film))", "has a word and a node below it"),
    ],
)
def test_what_is_no_tree_is_named(tmp_path, line, reason):
    path = write(tmp_path, FILM, line, DULL)
    with pytest.raises(RowErrors) as caught:
        read_sentiment_trees(path)
    assert [fault.line for fault in caught.value.rows] == [2] and reason in caught.value.rows[0].reason
    bank = read_sentiment_trees(path, skip_bad_rows=True)
    assert [tree.line for tree in bank.rows] == [1, 3] and len(bank.skipped) == 1


def test_no_tree_at_all_is_said(tmp_path):
    with pytest.raises(InputError, match="contains no trees"):
        read_sentiment_trees(write(tmp_path, ""))
    with pytest.raises(InputError, match="no valid one"):
        read_sentiment_trees(write(tmp_path, "("), skip_bad_rows=True)


def test_trees_are_labeled_rows_for_a_classifier(tmp_path):
    path = write(tmp_path, FILM, DULL, FLAT)
    assert [(row.text, row.label) for row in Classification.read(path).rows] == [
        ("The film shines .", "3"),
        ("The film drags .", "1"),
        ("A film", "2"),
    ]
    two = {"label": "two"}
    assert [row.label for row in Classification.read(path, columns=two).rows] == ["1", "0"]
    phrases = Classification.read(path, columns={"text": "phrase", **two}).rows
    assert {(row.text, row.label) for row in phrases} >= {("shines", "1"), ("shines .", "1"), ("drags", "0")}


def test_a_tree_whose_label_the_model_does_not_have_is_bad(tmp_path):
    path = write(tmp_path, FILM, DULL, FLAT)
    known = Classification(["1", "3"])
    with pytest.raises(RowErrors, match=r"train\.txt:3: column 'label': Unknown label '2'"):
        known.read_known(path)
    table = known.read_known(path, skip_bad_rows=True)
    assert [row.line for row in table.rows] == [1, 2] and table.num_skipped == 1
    assert [row.label for row in Classification(["0", "1"]).read_known(path).rows] == ["1", "0"]
    with pytest.raises(InputError, match="no non-neutral tree"):
        read_treebank(write(tmp_path, FLAT), columns={"label": "two"})


def test_columns_of_trees_are_named_when_they_are_others(tmp_path):
    path = write(tmp_path, FILM)
    with pytest.raises(ConfigError, match="contains trees.*'phrases'.*phrase"):
        read_treebank(path, columns={"text": "phrases"})
    with pytest.raises(ConfigError, match="contains trees.*text_pair"):
        read_treebank(path, columns={"text_pair": "phrase"})


@pytest.mark.parametrize(
    ("lines", "answer"),
    [
        ((FILM,), True),
        (("(2 Fun)", DULL), True),
        (("(2 films)", "in one"), False),
        (("(2 films)",), False),
        ((), False),
    ],
)
def test_trees_are_known_by_their_first_lines(tmp_path, lines, answer):
    assert is_treebank(write(tmp_path, "", *lines)) is answer
    assert not is_treebank(tmp_path / "absent.txt") and not is_treebank(tmp_path)
