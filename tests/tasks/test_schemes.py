"""Tags and entities against a table of rules that is written another way, as conlleval and seqeval have it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskwright.tasks.tagging.schemes import (
    SCHEMES,
    Entity,
    agreement,
    encode_tags,
    find_notation,
    repair,
    scheme_tags,
    spans,
    split_tag,
    strict_spans,
)

# conlleval: between which prefixes (before, now) of one type an entity ends, or begins.
ENDS = {("E", any_) for any_ in "BIESO"} | {("S", any_) for any_ in "BIESO"}
ENDS |= {(one, other) for one in "BI" for other in "BSO"}
BEGINS = {(any_, "B") for any_ in "BIESO"} | {(any_, "S") for any_ in "BIESO"}
BEGINS |= {(one, other) for one in "ESO" for other in "EI"}


def conlleval(tags):
    """Entities by the two tables of conlleval, with types minded apart."""
    found, start, before, type_before = [], 0, "O", ""
    for place, tag in enumerate([*tags, "O"]):
        now, type_now = split_tag(tag)
        if (before, now) in ENDS or (before != "O" and type_before != type_now):
            found.append(Entity(type_before, start, place))
        if (before, now) in BEGINS or (now != "O" and type_before != type_now):
            start = place
        before, type_before = now, type_now
    return found


def well_formed(tags, scheme):
    """Entities of the strict mode, found by asking of every stretch whether it is spelled as the scheme has it."""
    found = []
    for start in range(len(tags)):
        for end in range(start + 1, len(tags) + 1):
            type = split_tag(tags[start])[1]
            wanted = encode_tags([Entity(type, 0, end - start)], end - start, scheme) if type else None
            goes_on = end < len(tags) and tags[end] == f"I-{type}"
            if list(tags[start:end]) == wanted and not (scheme == "BIO" and goes_on):
                found.append(Entity(type, start, end))
    return found


def tags_of(scheme):
    return st.lists(st.sampled_from(scheme_tags(scheme, ["PER", "a-b"])), max_size=7)


@given(st.one_of(map(tags_of, SCHEMES)))
def test_entities_are_those_of_conlleval(tags):
    assert spans(tags) == conlleval(tags)


@pytest.mark.parametrize("scheme", ["BIO", "BIOES", "BILOU"])
@given(data=st.data())
def test_strict_entities_are_those_spelt_as_the_scheme_says(scheme, data):
    tags = data.draw(tags_of(scheme))
    assert strict_spans(tags, scheme) == well_formed(tags, scheme)


@pytest.mark.parametrize("scheme", SCHEMES)
@given(data=st.data())
def test_repair_keeps_the_entities_and_is_done_once(scheme, data):
    tags = data.draw(st.one_of(map(tags_of, SCHEMES)))
    mended, changed = repair(tags, scheme)
    if scheme != "IO":  # in which neighbors of one type are one
        assert spans(mended) == spans(tags)
        assert strict_spans(mended, scheme) == spans(tags)
    assert repair(mended, scheme) == (mended, 0)
    assert changed == sum(one != other for one, other in zip(tags, mended, strict=True))


def test_an_inside_after_outside_becomes_a_beginning_and_is_counted():
    assert repair(["O", "I-PER", "I-PER", "I-LOC"], "BIO") == (["O", "B-PER", "I-PER", "B-LOC"], 2)


@pytest.mark.parametrize(
    ("tags", "scheme"),
    [
        (["O", "B-PER", "I-PER"], "BIO"),
        (["O", "I-PER"], "IO"),
        (["O", "B-PER", "I-PER", "E-PER", "S-LOC"], "BIOES"),
        (["O", "B-PER", "I-PER", "L-PER", "U-LOC"], "BILOU"),
        (["NOUN", "VERB", "X"], None),
        (["O"], None),
        (["B-NP", "I-NP"], "BIO"),
        (["S-x", "NOUN", "VERB", "ADJ"], None),
    ],
)
def test_the_scheme_is_seen_by_the_tags(tags, scheme):
    found = find_notation(tags)
    assert (found and found.scheme) == scheme


def test_scores_are_counted_by_type_and_over_all():
    gold = [["B-PER", "I-PER", "O", "B-LOC"], ["O"]]
    found = [["B-PER", "O", "O", "B-LOC"], ["B-LOC"]]
    score = agreement(gold, found, spans)
    assert (score[""].precision, score[""].recall, score[""].f1) == (pytest.approx(1 / 3), 0.5, pytest.approx(0.4))
    assert (score["PER"].f1, score["LOC"].recall) == (0.0, 1.0)
    assert agreement([["O"]], [["O"]], spans)[""].f1 == 0.0
