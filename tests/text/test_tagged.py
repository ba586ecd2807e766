"""Tagged sentences read from CoNLL columns, JSON lines and CoNLL-U."""

from __future__ import annotations

import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskwright.core.errors import InputError, RowErrors
from maskwright.text.readers.tagged import is_tagged, read_tagged

CONLL = "-DOCSTART-\t-X-\tO\n\n# a comment\nAlbert\tNNP\tB-PER\n#\tX\tO\n\n\nRome\tNNP\tB-LOC\n"


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def test_columns_are_read_token_first_tag_last(tmp_path):
    table = read_tagged(write(tmp_path / "a.conll", CONLL))
    assert [(row.words, row.tags, row.line) for row in table.rows] == [
        (("Albert", "#"), ("B-PER", "O"), 4),
        (("Rome",), ("B-LOC",), 8),
    ]
    assert table.rows[0].line_of(1) == 5


GERMEVAL = "#\thttps://example.org/1 [2009-10-17]\n1\tUni\tB-ORG\tO\n2\tBern\tI-ORG\tB-LOC\n\n#\tx\n1\t#\tO\tO\n"
UNIVERSAL_NER = "# sent_id = 1\n# text = Ada left\n1\tAda\tB-PER\t-\tkim\n2\tleft\tO\t-\tkim\n\n1\t2\tO\t-\tkim\n"


@pytest.mark.compatibility(
    "GermEval 2014, Universal NER",
    theirs="the first column counts the words, the second contains them, then come outer and inner entities, or an "
    "annotator; `#` and a tab begin a comment",
    ours="the word and the outer entity are read, and comments are left out",
)
@pytest.mark.parametrize(
    ("text", "words", "tags"),
    [
        (GERMEVAL, [("Uni", "Bern"), ("#",)], [("B-ORG", "I-ORG"), ("O",)]),
        (UNIVERSAL_NER, [("Ada", "left"), ("2",)], [("B-PER", "O"), ("O",)]),
        ("1 Ada NNP B-PER\n2 left VBD O\n", [("Ada", "left")], [("B-PER", "O")]),
        ("1 Ada NNP\n2 left VBD\n", [("Ada", "left")], [("NNP", "VBD")]),
        ("1 B-X\n2 O\n", [("1", "2")], [("B-X", "O")]),
        ("1 O\n3 O\n", [("1", "3")], [("O", "O")]),
        ("#\tO\nAda\tB-PER\n", [("#", "Ada")], [("O", "B-PER")]),
        ("Ada B-PER\n# O\n# 1 B-PER\n", [("Ada", "#")], [("B-PER", "O")]),
        ("#\tO\n\n#\tB-X\n", [("#",), ("#",)], [("O",), ("B-X",)]),
    ],
)
def test_a_column_that_counts_the_words_is_no_token(tmp_path, text, words, tags):
    path = write(tmp_path / "a.iob2", text)
    rows = read_tagged(path).rows
    assert ([row.words for row in rows], [row.tags for row in rows]) == (words, tags)
    if text == GERMEVAL:
        assert [row.line for row in rows] == [2, 6] and is_tagged(write(tmp_path / "a.tsv", text))
        assert not is_tagged(write(tmp_path / "b.tsv", "1\tgood\tO\n2\tbad\tB\n"))  # a table
        assert read_tagged(path, columns={"token": "1", "tag": "3"}).rows[0].tags == ("O", "B-LOC")


def test_json_lines_and_packed_files(tmp_path):
    lines = json.dumps({"tokens": ["New York", "!"], "tags": ["B-LOC", "O"]}) + "\n"
    with gzip.open(tmp_path / "a.jsonl.gz", "wt", encoding="utf-8") as handle:
        handle.write(lines)
    row = read_tagged(tmp_path / "a.jsonl.gz").rows[0]
    assert row.text == "New York !"
    assert [row.text[start:end] for start, end in row.spans] == list(row.words)
    assert is_tagged(write(tmp_path / "b.jsonl", lines))
    assert not is_tagged(write(tmp_path / "c.jsonl", '{"text": "a"}\n'))
    assert is_tagged(tmp_path / "a.conll.xz")


def test_every_bad_line_is_named_and_its_sentence_can_be_left_out(tmp_path):
    text = "a\tO\nb\n\nc\tO\n\n\tO\nd\t\n\ne\tO\tX\n"
    with pytest.raises(RowErrors) as caught:
        read_tagged(write(tmp_path / "bad.conll", text))
    assert [(row.line, row.reason) for row in caught.value.rows] == [
        (2, "has 1 column, not 2 like the first line"),
        (6, "the token is empty"),
        (7, "the tag is empty"),
        (9, "has 3 columns, not 2 like the first line"),
    ]
    table = read_tagged(tmp_path / "bad.conll", skip_bad_rows=True)
    assert ([row.words for row in table.rows], table.num_skipped) == ([("c",)], 3)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"tokens": ["a", "b"], "tags": ["O"]}, "has 1 tags for 2 tokens"),
        ({"tokens": ["a", " "], "tags": ["O", "O"]}, "token 2 is empty"),
        ({"tokens": [], "tags": []}, "is empty"),
        (
            {"tokens": ["a"], "tags": [0]},
            "tag 1 is a number without a name: name the tags from 0, --columns 'classes=O|B-X|I-X'",
        ),
        ({"tokens": "a b", "tags": ["O"]}, "is text, not a list"),
        ({"tokens": ["a"]}, "is missing"),
        ({"tokens": ["a\ud800"], "tags": ["O"]}, "token 1: character 2 is a lone surrogate, which is not valid text"),
    ],
)
def test_a_bad_object_says_why(tmp_path, value, reason):
    good = json.dumps({"tokens": ["a"], "tags": ["O"]})
    path = write(tmp_path / "a.jsonl", f"{good}\n{json.dumps(value)}\n")
    with pytest.raises(RowErrors) as caught:
        read_tagged(path)
    assert (caught.value.rows[0].line, caught.value.rows[0].reason) == (2, reason)


@pytest.mark.parametrize(
    ("name", "text", "columns", "message"),
    [
        ("a.conll", "# only\n\n", {}, "contains no sentences"),
        ("a.conll", "a b\n", {"tag": "7"}, "no column 7"),
        ("a.conll", "a b\n", {"tag": "ner"}, "by position"),
        ("a.conll", "a b\n", {"label": "1"}, "Unknown column role 'label'"),
        ("a.csv", "a,b\n", {}, "is a table"),
        ("a.conll", "1 Ada Ada NNP\n2 left leave VBD\n", {}, "token=1,tag=2"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(tmp_path, name, text, columns, message):
    with pytest.raises(InputError, match=message):
        read_tagged(write(tmp_path / name, text), columns=columns)


word = st.text(st.characters(exclude_categories=("Cs", "Cc", "Zs", "Zl", "Zp")), min_size=1, max_size=8)
token = word.filter(lambda text: not text.startswith("-DOCSTART-") and text.strip() == text)
sentences = st.lists(st.lists(st.tuples(token, token), min_size=1, max_size=5), min_size=1, max_size=5)


@given(sentences)
def test_what_is_written_in_columns_is_read_again(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("conll") / "a.conll"
    write(path, "\n\n".join("\n".join(f"{one}\t{tag}" for one, tag in row) for row in rows) + "\n")
    found = read_tagged(path).rows
    assert [list(zip(row.words, row.tags, strict=True)) for row in found] == rows


def test_numbers_of_tags_are_read_by_their_names(tmp_path):
    path = write(tmp_path / "a.jsonl", '{"tokens": ["Mara", "left"], "ner_tags": [1, 0]}\n')
    columns = {"classes": "O|B-PER"}
    assert read_tagged(path, columns=columns).rows[0].tags == ("B-PER", "O")
    with pytest.raises(RowErrors, match="column 'ner_tags': tag 1 is a number without a name"):
        read_tagged(path)
    write(path, '{"tokens": ["Mara"], "ner_tags": [2]}\n')
    with pytest.raises(RowErrors, match="2 is none of the 2 classes"):
        read_tagged(path, columns=columns)


@pytest.mark.compatibility(
    "datasets 5.2.0",
    theirs="to_parquet stores tags as integers, and their names only in the schema metadata",
    ours="tags are read as the names that the metadata hold",
)
def test_tags_of_parquet_files_are_read_by_their_names(tmp_path):
    names = {"feature": {"names": ["O", "B-PER"], "_type": "ClassLabel"}, "_type": "List"}
    metadata = {"huggingface": json.dumps({"info": {"features": {"ner_tags": names}}})}
    table = pa.table({"tokens": [["Mara", "left"]], "ner_tags": [[1, 0]]})
    pq.write_table(table.replace_schema_metadata(metadata), tmp_path / "a.parquet")
    assert is_tagged(tmp_path / "a.parquet")
    assert read_tagged(tmp_path / "a.parquet").rows[0].tags == ("B-PER", "O")


# -- CoNLL-U and CoNLL-U Plus ----------------------------------------------------------------------------------------

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
