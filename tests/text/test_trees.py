"""Trees in brackets: sentiment trees, and parses as targets of translation."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskwright.core.errors import ConfigError, InputError, RowErrors
from maskwright.tasks.classification import Classification
from maskwright.text.readers.parallel import (
    bracket_error,
    check_languages,
    language_of,
    languages_of,
    linearized,
    may_become_tree,
    tag,
)
from maskwright.text.readers.sentiment_trees import is_treebank, read_sentiment_trees, read_treebank
from maskwright.text.readers.tables import Row

FILM = "(3 (2 (2 The) (2 film)) (4 (4 shines) (2 .)))"
DULL = "(1 (2 (2 The) (2 film)) (1 (1 drags) (2 .)))"
FLAT = "(2 (2 A) (2 film))"


def write(folder, *lines):
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


def bracketed(tree):
    label, below = tree
    return f"({label} {below})" if isinstance(below, str) else f"({label} {' '.join(map(bracketed, below))})"


def expected(tree):
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


# -- Targets of translation ------------------------------------------------------------------------------------------


def rows(*texts):
    return [Row(text, None, "x", number, "a.tsv") for number, text in enumerate(texts, start=2)]


def test_a_tag_is_read_where_a_source_begins():
    assert tag("fr") == "<to-fr>" and language_of("<to-fr> ein Hund") == "fr"
    assert language_of("<to-pt-BR> x") == "pt-BR" and language_of("ein <to-fr> Hund") is None


def test_training_knows_its_languages_or_says_which_line_has_none():
    assert languages_of(rows("<to-fr> a", "<to-de> b", "<to-fr> c")) == ("de", "fr")
    assert languages_of(rows("a", "b")) == ()
    with pytest.raises(InputError, match=r"a.tsv, line 3: the source has no language tag.*<to-fr>"):
        languages_of(rows("<to-fr> a", "b"))


def test_an_unknown_or_a_missing_language_is_said():
    check_languages(rows("<to-xx> a"), ())
    check_languages(rows("<to-fr> a"), ("de", "fr"))
    with pytest.raises(InputError, match="cannot translate to 'xx', only to de, fr"):
        check_languages(rows("<to-xx> a"), ("de", "fr"))
    with pytest.raises(InputError, match="line 2: the source has no target language"):
        check_languages(rows("a"), ("de", "fr"))
    with pytest.raises(InputError, match="is not a language code"):
        tag("f r")


# -- trees ------------------------------------------------------------------------------------------------------------

LABELS = st.sampled_from(["S", "NP", "VP", "PP"])
WORDS = st.sampled_from(["dogs", "chase", "cats", "an", "elephant"])
TREES = st.recursive(
    st.builds(lambda tag, word: f"({tag} {word})", st.sampled_from(["NN", "V"]), WORDS),
    lambda inner: st.builds(
        lambda label, own: f"({label} {' '.join(own)})", LABELS, st.lists(inner, min_size=1, max_size=3)
    ),
    max_leaves=8,
)


def test_the_tree_of_the_lecture():
    tree = "(S (NP (NNS dogs)) (VP (VBP chase) (NP (NNS cats))))"
    wanted = "(S (NP dogs )NP (VP chase (NP cats )NP )VP )S"
    assert linearized(tree) == wanted
    assert linearized(f"( {tree} )") == wanted, "an empty label at the root"
    assert bracket_error(wanted, "dogs chase cats") is None


@given(TREES)
def test_what_is_made_of_a_tree_is_well_formed_and_has_its_words(tree):
    words = " ".join(piece.rstrip(")") for piece in tree.split() if not piece.startswith("("))
    assert bracket_error(linearized(f"(ROOT {tree} {tree})"), f"{words} {words}") is None


@given(TREES, st.integers(0, 99))
def test_a_string_that_lost_a_bracket_is_flagged(tree, place):
    pieces = linearized(f"(ROOT {tree} {tree})").split()
    brackets = [number for number, piece in enumerate(pieces) if piece[0] in "()"]
    del pieces[brackets[place % len(brackets)]]
    assert bracket_error(" ".join(pieces)) is not None


@pytest.mark.parametrize(
    "written, said",
    [
        ("(S dogs )NP", r"\)NP has no matching open \(NP"),
        ("(S (NP dogs )NP", r"\(S is never closed"),
        ("(S dogs )S (S cats )S", "2 trees"),
        ("dogs", "outside"),
        ("(S )S", "a bracket without words"),
        ("", "no tree"),
        (")S", "no matching open"),
    ],
)
def test_every_fault_is_said(written, said):
    fault = bracket_error(written)
    assert fault is not None
    assert re.search(said, fault)


@pytest.mark.parametrize("tree", ["(S (NP dogs)", "(S (NP dogs)) )", "dogs", "", "(S ())", "(S dogs) cats"])
def test_brackets_that_do_not_match_are_refused(tree):
    with pytest.raises(InputError):
        linearized(tree)


@given(TREES, st.data())
def test_every_beginning_of_a_tree_may_become_one_and_what_it_lacks_makes_it_one(tree, data):
    written = linearized(f"(ROOT {tree} {tree})")
    words = [piece for piece in written.split() if piece[0] not in "()"]
    assert may_become_tree(written, words) and may_become_tree(written, words, is_whole=True)
    assert may_become_tree(written[: data.draw(st.integers(0, len(written)))], words)
    pieces = written.split()
    assert may_become_tree(" ".join(pieces[: data.draw(st.integers(0, len(pieces)))]), words, is_whole=True)


@given(
    st.lists(st.sampled_from(["(S", "(NP", ")S", ")NP", "dogs", "cats"]), max_size=9),
    st.lists(st.sampled_from(["dogs", "cats"]), min_size=1, max_size=3),
)
def test_what_may_become_a_tree_is_exactly_what_some_tree_begins_with(pieces, words):
    """By brute force: close what is open as soon as all words stand, and see whether that is a tree."""
    written = [*pieces]
    rest = words[sum(piece[0] not in "()" for piece in pieces) :]
    stack: list[str] = []
    for piece in pieces:
        if piece[0] == "(":
            stack.append(piece[1:])
        elif piece[0] == ")" and stack:
            stack.pop()
    if not pieces or (not stack and rest):
        written.append("(S")
        stack.append("S")
    whole = " ".join([*written, *rest, *(f"){label}" for label in reversed(stack))])
    assert may_become_tree(" ".join(pieces), words, is_whole=True) == (bracket_error(whole, " ".join(words)) is None)


@pytest.mark.parametrize(
    "written, may",
    [
        ("", True), ("(", True), ("(S", True), ("(S ", True), ("(S do", True), ("(S dogs", True), ("(S dogs )", False),
        ("(S dogs )S", False), ("(S dogs ca", True), ("(S cats", False), ("dogs", False), ("(S )", False),
        ("(S )S", False), ("(S dogs )N", False), ("(S dogs cats )S", True), ("(S dogs cats )S ", True),
        ("(S dogs cats )S (", False), ("(S dogs cats (", False), ("(S (NP dogs )NP", True), ("(S (NP dogs )NX", False),
        ("(S d\ufffd", False), ("\ufffd", False), ("(\ufffd", False), ("(S dogs )\ufffd", False),
    ],
)  # fmt: skip
def test_what_is_half_written_may_go_on_or_not(written, may):
    assert may_become_tree(written, ["dogs", "cats"]) is may
