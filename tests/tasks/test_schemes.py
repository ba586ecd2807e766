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


# Scheme, how a file writes entities of two and one words, and how schemes and reports have them.
WRITTEN = [
    ("BIO", "B-PER I-PER O B-LOC", "B-PER I-PER O B-LOC"),
    ("BIO", "b-per i-per o b-loc", "B-per I-per O B-loc"),
    ("BIO", "B_PER I_PER O B_LOC", "B-PER I-PER O B-LOC"),
    ("BIO", "PER-B PER-I O LOC-B", "B-PER I-PER O B-LOC"),
    ("BIO", "PER_B PER_I O LOC_B", "B-PER I-PER O B-LOC"),
    ("BIO", "per:b per:i o loc:b", "B-per I-per O B-loc"),
    ("BIO", "B I O B", "B-ENT I-ENT O B-ENT"),
    ("BIO", "b i o b", "B-ENT I-ENT O B-ENT"),
    ("BIO", "B-O I-O O B-B", "B-O I-O O B-B"),
    ("BIO", "B-a-b I-a-b O B-a_b", "B-a-b I-a-b O B-a_b"),
    ("IO", "I-PER I-PER O I-LOC", "I-PER I-PER O I-LOC"),
    ("IO", "PER PER O LOC O O", "I-PER I-PER O I-LOC O O"),
    ("IO", "I I O I", "I-ENT I-ENT O I-ENT"),
    ("IOB1", "I-PER I-PER O I-LOC B-LOC", "I-PER I-PER O I-LOC B-LOC"),
    ("IOB1", "PER_I PER_I O LOC_I LOC_B", "I-PER I-PER O I-LOC B-LOC"),
    ("BIOES", "B-PER E-PER O S-LOC", "B-PER E-PER O S-LOC"),
    ("BIOES", "B E O S I", "B-ENT E-ENT O S-ENT I-ENT"),
    ("BILOU", "B-PER L-PER O U-LOC", "B-PER L-PER O U-LOC"),
    ("BILOU", "per-b per-l o loc-u", "B-per L-per O U-loc"),
    ("BMEWO", "B-PER E-PER O W-LOC", "B-PER E-PER O W-LOC"),
    ("BMES", "B-PER M-PER E-PER O S-LOC", "B-PER M-PER E-PER O S-LOC"),
    ("BMES", "B E S B M E", "B-ENT E-ENT S-ENT B-ENT M-ENT E-ENT"),
    ("BIO", "B-PER I-PER O - O _", "B-PER I-PER O  O "),
]


@pytest.mark.compatibility(
    "seqeval 1.2.2",
    theirs="the first letter is the prefix of any tag: ORG is outside, PER is the type ER, b-per begins no entity",
    ours="all of these spellings are recognized in the file, and predictions are written as the file writes tags",
)
@pytest.mark.parametrize(("scheme", "written", "read"), WRITTEN)
def test_every_scheme_is_read_and_written_in_every_spelling(scheme, written, read):
    tags = written.split()
    notation = find_notation(tags, [tags])
    assert (notation.scheme, [notation.read(tag) for tag in tags]) == (scheme, read.split(" "))
    assert [notation.write(tag) for tag in read.split()] == [tag for tag in tags if notation.read(tag)]


@pytest.mark.parametrize(
    "tags",
    [
        "NOUN VERB X ADJ",
        "N V O ^ O ! D P O S E L N N V V",  # O is a pronoun in the tags of tweets
        "S-x NOUN VERB ADJ",
        "O O",
        "N-S---MN1- V3SPIA--- U--------",
    ],
)
def test_plain_tags_have_no_scheme(tags):
    assert find_notation(tags.split(), [tags.split()]) is None


def test_tags_that_fit_nothing_do_not_hide_the_scheme():
    notation = find_notation(["B-PER", "I-PER", "O", "-", "Q", "X", "PER"])
    assert (notation.scheme, [notation.read(tag) for tag in ("-", "Q", "PER")]) == ("BIO", ["", None, None])


def test_scores_are_counted_by_type_and_over_all():
    gold = [["B-PER", "I-PER", "O", "B-LOC"], ["O"]]
    found = [["B-PER", "O", "O", "B-LOC"], ["B-LOC"]]
    score = agreement(gold, found, spans)
    assert (score[""].precision, score[""].recall, score[""].f1) == (pytest.approx(1 / 3), 0.5, pytest.approx(0.4))
    assert (score["PER"].f1, score["LOC"].recall) == (0.0, 1.0)
    assert agreement([["O"]], [["O"]], spans)[""].f1 == 0.0


@pytest.mark.compatibility(
    "seqeval 1.2.2",
    theirs="a word whose tag is - (no annotation) is an entity of the type _",
    ours="words tagged - or _ are context: not learned, not scored, and counted",
)
def test_words_without_a_tag_are_not_scored():
    score = agreement([["B-PER", "I-PER", "", "O"]], [["B-PER", "I-PER", "I-PER", "O"]], spans)[""]
    assert (score.gold, score.found, score.both) == (1, 1, 1)
    assert repair(["O", "I-PER", ""], "BIO") == (["O", "B-PER", ""], 1)
