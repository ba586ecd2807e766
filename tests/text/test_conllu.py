"""CoNLL-U and CoNLL-U Plus: words and columns by name, text and offsets, and what a damaged file says."""

from __future__ import annotations

import gzip

import pytest

from maskwright.core.errors import InputError, RowErrors
from maskwright.text.readers.tagged import is_tagged, read_tagged

SPANISH = """\
# newdoc id = story
# sent_id = s1
# text = Vámonos al mar, 3\u202f000 veces.
1-2	Vámonos	_	_	_	_	_	_	_	_
1	Vamos	ir	VERB	VMM	Mood=Imp	0	root	_	_
2	nos	yo	PRON	PP1	Case=Acc|Number=Plur	1	obj	_	_
3-4	al	_	_	_	_	_	_	_	_
3	a	a	ADP	_	_	5	case	_	_
4	el	el	DET	_	Definite=Def	5	det	_	_
5	mar	mar	NOUN	NC	Number=Sing	1	obl	_	Entity=B-LOC|SpaceAfter=No
6	,	,	PUNCT	_	_	1	punct	_	_
6.1	y	y	CCONJ	_	_	_	_	1:cc	CopyOf=1
7	3\u202f000	3000	NUM	_	_	8	nummod	_	_
8	veces	vez	NOUN	_	Number=Plur	1	obl	_	SpaceAfter=No
9	.	.	PUNCT	_	_	1	punct	_	_

# sent_id = s2
1	No	no	ADV	_	_	0	root	_	_

# newdoc
0.1	e	_	_	_	_	_	_	_	_
1-2	cannot	_	_	_	_	_	_	_	SpaceAfter=No
1	can	can	AUX	_	_	0	root	_	_
2	not	not	PART	_	_	1	advmod	_	_
3	!	!	PUNCT	_	_	1	punct	_	_
"""


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def row(id, form, upos="X", misc="_"):
    return f"{id}\t{form}\t_\t{upos}\t_\t_\t0\troot\t_\t{misc}\n"


@pytest.mark.compatibility(
    "conllu 6.0.0 and spaCy 3.8",
    theirs="conllu returns ranges and empty nodes among the words; spaCy's text joins the words of a range",
    ours="ranges and empty nodes are left out, and give the characters of the words in the text",
)
def test_words_are_form_and_upos_with_their_characters(tmp_path):
    rows = read_tagged(write(tmp_path / "a.conllu", SPANISH)).rows
    first = rows[0]
    assert first.words == ("Vamos", "nos", "a", "el", "mar", ",", "3\u202f000", "veces", ".")
    assert first.tags == ("VERB", "PRON", "ADP", "DET", "NOUN", "PUNCT", "NUM", "NOUN", "PUNCT")
    assert first.text == "Vámonos al mar, 3\u202f000 veces."
    said = [first.text[start:end] for start, end in first.spans]
    assert said == ["Vámonos", "Vámonos", "al", "al", "mar", ",", "3\u202f000", "veces", "."]
    assert [first.line_of(word) for word in (0, 4, 6)] == [5, 10, 13]
    assert [(one.id, one.document) for one in rows] == [("s1", "story"), ("s2", "story"), (None, "2")]
    assert (rows[2].text, [rows[2].text[start:end] for start, end in rows[2].spans]) == ("cannot!", ["can", "not", "!"])


@pytest.mark.parametrize(
    ("columns", "tags"),
    [
        ({"tag": "XPOS"}, ("VMM", "PP1", "", "", "NC")),
        ({"tag": "feats"}, ("Mood=Imp", "Case=Acc|Number=Plur", "_", "Definite=Def", "Number=Sing")),
        ({"tag": "LEMMA"}, ("ir", "yo", "a", "el", "mar")),
        ({"tag": "MISC:Entity"}, ("O", "O", "O", "O", "B-LOC")),
        ({"tag": "FEATS:Number"}, ("_", "Plur", "_", "_", "Sing")),
        ({"tag": "3"}, ("VERB", "PRON", "ADP", "DET", "NOUN")),
        ({"token": "1", "tag": "-3"}, ("root", "obj", "case", "det", "obl")),
    ],
)
def test_columns_are_chosen_by_name_attribute_or_position(tmp_path, columns, tags):
    first = read_tagged(write(tmp_path / "a.conllu", SPANISH), columns=columns).rows[0]
    assert (first.words[:2], first.tags[:5]) == (("Vamos", "nos"), tags)


@pytest.mark.parametrize("name", ["a.txt", "a.conll", "a.conllu.gz"])
def test_it_is_recognized_by_its_columns_or_its_name(tmp_path, name):
    if name.endswith(".gz"):
        (tmp_path / name).write_bytes(gzip.compress(SPANISH.encode()))
    else:
        write(tmp_path / name, SPANISH)
    assert read_tagged(tmp_path / name).rows[0].words[0] == "Vamos"


def test_columns_that_a_plus_file_names_are_read(tmp_path):
    text = "# global.columns = ID FORM UPOS NE:TAG\n# sent_id = 1\n1\tMara\tPROPN\tB-PER\n2\tsat\tVERB\tO\n"
    path = write(tmp_path / "a.conllup", text)
    assert is_tagged(path)
    assert read_tagged(path).rows[0].tags == ("PROPN", "VERB")
    assert read_tagged(path, columns={"tag": "NE:TAG"}).rows[0].tags == ("B-PER", "O")
    without = write(tmp_path / "b.conllup", "# global.columns = FORM NE:TAG\n1-2\tO\n3.1\tO\n")
    assert read_tagged(without).rows[0].words == ("1-2", "3.1")


def test_words_without_a_tag_have_none_and_a_file_without_tags_is_for_predictions(tmp_path):
    path = write(tmp_path / "a.conllu", row(1, "a", "_") + row(2, "b", "X"))
    assert read_tagged(path).rows[0].tags == ("", "X")
    path = write(tmp_path / "b.conllu", row(1, "_", "_"))
    assert read_tagged(path, need_tags=False).rows[0].tags is None
    with pytest.raises(InputError, match=r"no tags: UPOS is '_'.*tag=XPOS"):
        read_tagged(path)


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        (row(1, "a") + row(3, "b"), 2, "the ID is 3 where 2 is expected"),
        (row(1, "a") + row(1, "b"), 2, "a blank line before the sentence is missing"),
        (row(1, "a") + row("x", "b"), 2, "the ID 'x' is not a number, a range"),
        (row(1, "a") + "2\tb\tX\n", 2, "has 3 columns, not the 10 of CoNLL-U"),
        ("1 a _ X _ _ 0 root _ _\n", 1, "separated by tabs"),
        (row("1-3", "ab") + row(1, "a") + row(2, "b"), 1, "ends at 3, but the sentence has 2 words"),
        (row("1-1", "ab") + row(1, "a"), 1, "the range 1-1 is empty"),
        (row(1, ""), 1, "FORM is empty"),
        (row(1, "a", " "), 1, "UPOS is empty"),
        (row("1.1", "a"), 1, "the sentence has no words"),
    ],
)
def test_a_damaged_line_is_named_with_what_was_expected(tmp_path, text, line, reason):
    path = write(tmp_path / "a.conllu", row(1, "fine") + "\n" + text)
    with pytest.raises(RowErrors) as caught:
        read_tagged(path)
    assert [(fault.line - 2, reason in fault.reason) for fault in caught.value.rows] == [(line, True)]
    assert len(read_tagged(path, skip_bad_rows=True).rows) == 1


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"tag": "NER"}, "no column 'NER': its columns are ID, FORM.*MISC:NER"),
        ({"tag": "MISC:NER"}, "no attribute 'NER' in MISC: its attributes are CopyOf, Entity|Entity, SpaceAfter"),
        ({"tag": "12"}, "no column '12'"),
    ],
)
def test_a_column_that_is_not_there_names_those_that_are(tmp_path, columns, message):
    with pytest.raises(InputError, match=message):
        read_tagged(write(tmp_path / "a.conllu", SPANISH), columns=columns)
