"""Targets of translation: language tags, and trees as bracket strings."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskwright.core.errors import InputError
from maskwright.text.readers.parallel import (
    bracket_error,
    check_languages,
    language_of,
    languages_of,
    linearized,
    may_become_tree,
    tag,
)
from maskwright.text.readers.tables import Row

# -- language tags ----------------------------------------------------------------------------------------------------


def rows(*texts: str) -> list[Row]:
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
