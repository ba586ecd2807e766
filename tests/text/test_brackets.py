"""Trees as bracket strings: the lectures' form, and what is wrong with a string that is none."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskwright.core.errors import InputError
from maskwright.text.brackets import fault_of, linearised

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
    assert linearised(tree) == wanted
    assert linearised(f"( {tree} )") == wanted, "an empty label at the root"
    assert fault_of(wanted, "dogs chase cats") is None


@given(TREES)
def test_what_is_made_of_a_tree_is_well_formed_and_has_its_words(tree):
    words = " ".join(piece.rstrip(")") for piece in tree.split() if not piece.startswith("("))
    assert fault_of(linearised(f"(ROOT {tree} {tree})"), f"{words} {words}") is None


@given(TREES, st.integers(0, 99))
def test_a_string_that_lost_a_bracket_is_flagged(tree, place):
    pieces = linearised(f"(ROOT {tree} {tree})").split()
    brackets = [number for number, piece in enumerate(pieces) if piece[0] in "()"]
    del pieces[brackets[place % len(brackets)]]
    assert fault_of(" ".join(pieces)) is not None


@pytest.mark.parametrize(
    "written, said",
    [
        ("(S dogs )NP", r"\)NP closes no \(NP"),
        ("(S (NP dogs )NP", r"\(S is never closed"),
        ("(S dogs )S (S cats )S", "2 trees"),
        ("dogs", "outside"),
        ("(S )S", "nothing but brackets"),
        ("", "no tree"),
        (")S", "is open"),
    ],
)
def test_every_fault_is_said(written, said):
    fault = fault_of(written)
    assert fault is not None
    assert re.search(said, fault)


def test_other_words_than_those_of_the_sentence_are_a_fault():
    assert fault_of("(S (NP dogs )NP )S", "cats") == "its words are not those of the sentence"


@pytest.mark.parametrize("tree", ["(S (NP dogs)", "(S (NP dogs)) )", "dogs", "", "(S ())", "(S dogs) cats"])
def test_brackets_that_do_not_match_are_refused(tree):
    with pytest.raises(InputError):
        linearised(tree)


def test_a_deep_tree_is_read_without_recursion():
    depth = 20_000
    written = linearised("(A " * depth + "(N x)" + ")" * depth)
    assert written.startswith("(A (A") and written.count("x") == 1
