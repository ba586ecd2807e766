"""Labeled texts and pairs: the same rows from every format, whole and as a stream, and error messages."""

import csv
import io
import os
import sys
import threading
from operator import attrgetter
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from maskwright.core.errors import InputError, MissingExtraError, MissingFileError, RowErrors
from maskwright.doctor.fix import relabel
from maskwright.tasks.classification import Classification
from maskwright.text.formats.cells import one_spelling
from maskwright.text.formats.records import is_fasttext
from maskwright.text.readers.inputs import split_pairs
from maskwright.text.readers.parallel import read_parallel
from maskwright.text.readers.tables import RowStream, find_reader, read_table, read_texts
from text.written import PACKERS, peak_of, table_bytes, write

ROWS = [
    {"premise": 'A "man", she said', "hypothesis": "вот 中文 🙂", "label": "yes", "source": "x"},
    {"premise": "two", "hypothesis": ' it"s ', "label": "no", "source": ""},
    {"premise": "three", "hypothesis": "'3'", "label": "yes", "source": "y"},
]


ENDINGS = [".csv", ".tsv", ".jsonl", ".parquet"]


@pytest.mark.parametrize("packing", list(PACKERS))
@pytest.mark.parametrize("ending", ENDINGS)
def test_every_format_and_packing_gives_the_same_rows(tmp_path, ending, packing):
    path = write(tmp_path, f"a{ending}{packing}", ROWS)
    table = read_table(path)
    assert [(row.text, row.text_pair, row.label) for row in table.rows] == [
        (row["premise"], row["hypothesis"], row["label"]) for row in ROWS
    ]
    assert table.columns == {"text": "premise", "text_pair": "hypothesis", "label": "label"}
    assert table.has_label and table.has_pair and not table.skipped and len(table) == 3
    first = 1 if ending in (".jsonl", ".parquet") else 2
    assert [row.line for row in table.rows] == [first, first + 1, first + 2]
    assert {row.file for row in table.rows} == {str(path)}


cells = st.text(st.characters(codec="utf-8", exclude_characters="\0\r\x1a"), min_size=1, max_size=12).filter(str.strip)


@given(
    rows=st.lists(st.tuples(cells, cells), min_size=1, max_size=6),
    crlf=st.booleans(),
    bom=st.booleans(),
    quoting=st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]),
)
def test_any_text_survives_csv_at_its_physical_line(tmp_path_factory, rows, crlf, bom, quoting):
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, lineterminator="\n", quoting=quoting)
    writer.writerow(["label", "text"])
    lines = []
    for text, label in rows:
        lines.append(1 + stream.getvalue().count("\n"))
        writer.writerow([label, text])
    content = stream.getvalue().replace("\n", "\r\n") if crlf else stream.getvalue()
    path = write(tmp_path_factory.mktemp("csv"), "a.csv", ("\ufeff" if bom else "") + content)
    table = read_table(path)
    assert [(row.text, row.label, row.line) for row in table.rows] == [
        (text, one_spelling(label.strip()), line) for (text, label), line in zip(rows, lines, strict=True)
    ]


@pytest.mark.parametrize(
    ("header", "text", "pair", "label"),
    [
        ("text,label", "text", None, "label"),
        ("label,source,text", "text", None, "label"),
        ("text,text_pair,label", "text", "text_pair", "label"),
        ("sentence,label,source", "sentence", None, "label"),
        ("idx,sentence1,sentence2,score", "sentence1", "sentence2", "score"),
        ("question,sentence,label", "question", "sentence", "label"),
        ("question1,question2,label", "question1", "question2", "label"),
        ("Premise,Hypothesis,Label", "Premise", "Hypothesis", "Label"),
        ("Quality,#1 ID,#2 ID,#1 String,#2 String", "#1 String", "#2 String", "Quality"),
        ("id,question1,question2,is_duplicate", "question1", "question2", "is_duplicate"),
        ("gold_label,sentence1,sentence2", "sentence1", "sentence2", "gold_label"),
        (" text , label ", "text", None, "label"),
        ("text,score,label", "text", None, "label"),
    ],
)
def test_well_known_names_are_recognised(tmp_path, header, text, pair, label):
    names = [name.strip() for name in header.split(",")]
    cells = [f"cell of {name}" for name in names]
    table = read_table(write(tmp_path, "a.csv", f"{header}\n{','.join(cells)}\n"))
    assert table.columns == {"text": text, "label": label} | ({"text_pair": pair} if pair else {})
    assert (table.rows[0].text, table.rows[0].label) == (f"cell of {text}", f"cell of {label}")


def test_a_pair_on_which_the_annotators_did_not_agree_has_no_label(tmp_path):
    path = write(tmp_path, "a.tsv", "gold_label\tsentence1\tsentence2\n-\ta man\ta cat\nneutral\ta man\ta dog\n")
    with pytest.raises(RowErrors, match="a.tsv:2: column 'gold_label': '-' is not a label"):
        read_table(path)
    assert [row.label for row in read_table(path, skip_bad_rows=True).rows] == ["neutral"]


def test_other_names_are_given_by_a_mapping(tmp_path):
    path = write(tmp_path, "a.csv", "y,body,text\n1,first,other\n0,second,other\n")
    table = read_table(path, columns={"text": "body", "label": "y"})
    assert [(row.text, row.label) for row in table.rows] == [("first", "1"), ("second", "0")]
    assert read_table(path, columns={"label": "y"}).rows[0].text == "other"
    with pytest.raises(InputError, match="no column 'nope': the columns are"):
        read_table(path, columns={"text": "body", "label": "nope"})
    rows = read_table(write(tmp_path, "a.jsonl", '{"y": 1, "body": "first"}\n'), columns={"text": "body", "label": "y"})
    assert rows.rows[0].label == "1"


def test_positions_name_columns_where_there_is_no_header(tmp_path):
    path = write(tmp_path, "cola.tsv", "gj04\t1\t\tThe sailors rode.\ngj04\t0\t*\tThem rode sailors.\n")
    table = read_table(path, columns={"text": "3", "label": "1"})
    assert [(row.text, row.label) for row in table.rows] == [("The sailors rode.", "1"), ("Them rode sailors.", "0")]
    with pytest.raises(InputError, match=r"4 columns and no header .*--columns text=3,label=1"):
        read_table(path)
    with pytest.raises(InputError, match=r"no column 9 \(counted from 0\)"):
        read_table(path, columns={"text": "9", "label": "1"})


def test_a_header_with_unknown_names_is_not_taken_for_a_row(tmp_path):
    path = write(tmp_path, "a.csv", "review,sentiment\nfine film,pos\nbad film,neg\ngood,pos\n")
    with pytest.raises(InputError, match="--columns text=review,label=sentiment if it is a header") as caught:
        read_table(path)
    assert "--columns text=0,label=1 if it is data" in str(caught.value)
    assert len(read_table(path, columns={"text": "0", "label": "1"})) == 4
    assert len(read_table(path, columns={"text": "review", "label": "sentiment"})) == 3


@pytest.mark.parametrize(
    ("content", "mapping", "words"),
    [
        ("text,category\na,b\n", None, r"no column for the label: the columns are 'text', 'category'"),
        ("label,body\na,b\n", None, r"no column for the text"),
        ("text,text,label\na,b,c\n", None, r"column 'text' more than once \(columns 1 and 2\)"),
        ("text,label,Label\na,b,c\n", {"label": "LABEL"}, r"more than once"),
        ("text,label\na,b\n", {"text": "body"}, r"no column 'body'"),
        ("text,label\na,b\n", {"body": "text"}, r"Unknown column role 'body'"),
        ("text,label\na,b\n", {"text": "label", "label": "label"}, r"to two roles"),
        ("", None, r"is empty"),
        ("\n\n", None, r"is empty"),
        ("text,label\n", None, r"contains no rows"),
    ],
)
def test_a_table_without_the_needed_columns_is_refused_in_one_sentence(tmp_path, content, mapping, words):
    with pytest.raises(InputError, match=words) as caught:
        read_table(write(tmp_path, "a.csv", content), columns=mapping)
    assert ("\n" not in str(caught.value) and "a.csv" in str(caught.value)) or mapping


def test_rows_are_chosen_by_another_column(tmp_path):
    rows = [{"text": f"t{n}", "label": "a", "split": "train" if n % 3 else "test"} for n in range(7)]
    rows.append({"text": "", "label": "", "split": "test"})
    for ending in ENDINGS:
        path = write(tmp_path, f"a{ending}", rows)
        assert [row.text for row in read_table(path, where={"split": "train"}).rows] == ["t1", "t2", "t4", "t5"]
        with pytest.raises(InputError, match="contains no rows with split = dev"):
            read_table(path, where={"split": "dev"})
        with pytest.raises(InputError, match="no column 'part'"):
            read_table(path, where={"part": "train"})
        with pytest.raises(RowErrors):
            read_table(path, where={"split": "test"})


def test_labels_that_are_not_needed_may_be_missing(tmp_path):
    path = write(tmp_path, "a.jsonl", '{"text": "a", "label": "x"}\n{"text": "b"}\n{"text": "c", "label": null}\n')
    assert [row.label for row in read_table(path, need_label=False).rows] == ["x", None, None]
    unlabeled = read_table(write(tmp_path, "b.csv", "text,other\na,1\n"), need_label=False)
    assert not unlabeled.has_label and unlabeled.rows[0].label is None


def test_a_broken_parquet_file_is_refused_in_words(tmp_path):
    data = table_bytes(ROWS, "parquet")
    for broken in (b"", data[:-10], b"PAR1" + data[20:], b"not parquet at all"):
        with pytest.raises(InputError, match=r"a\.parquet"):
            read_table(write(tmp_path, "a.parquet", broken))


def test_parquet_without_its_library_names_the_extra(tmp_path, monkeypatch):
    path = write(tmp_path, "a.parquet", ROWS)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"maskwright\[data\]"):
        read_table(path)


def test_a_plain_file_gives_one_text_a_line(tmp_path):
    table = read_texts(write(tmp_path, "a.txt", "one\n two \nthree\n\n\n"))
    assert [(row.text, row.line) for row in table.rows] == [("one", 1), (" two ", 2), ("three", 3)]
    assert not table.has_label


def test_blank_lines_between_texts_are_bad_rows(tmp_path):
    path = write(tmp_path, "a.txt", "one\n\n  \ntwo\n")
    with pytest.raises(RowErrors) as caught:
        read_texts(path)
    assert [row.line for row in caught.value.rows] == [2, 3]
    table = read_texts(path, skip_bad_rows=True)
    assert [row.text for row in table.rows] == ["one", "two"] and table.num_skipped == 2


def test_texts_come_from_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"eins\nzwei\n")))
    assert [row.text for row in read_texts("-").rows] == ["eins", "zwei"]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\n")))
    with pytest.raises(InputError, match="standard input contains no text"):
        read_texts("-")


def test_what_is_no_table_is_refused_in_words(tmp_path):
    for name, words in {"a.txt": "plain text", "a.json": "not the expected JSON", "a.xlsx": "as .csv"}.items():
        with pytest.raises(InputError, match=words):
            read_table(write(tmp_path, name, "x"))
    with pytest.raises(MissingFileError):
        read_table(tmp_path / "nowhere.csv")
    with pytest.raises(InputError, match="is a folder"):
        (tmp_path / "folder.csv").mkdir()
        read_table(tmp_path / "folder.csv")


def test_a_source_is_a_text_only_with_a_target(tmp_path):
    for row in (
        {"id": 1, "data": "One.", "label": "a", "source": "wire"},
        {"source": "One.", "target": "1", "label": "a"},
    ):
        assert read_table(write(tmp_path, "a.jsonl", [row])).rows[0].text == "One."
    with pytest.raises(InputError, match="no column for the text.*'body'.*--columns text=NAME"):
        read_table(write(tmp_path, "a.jsonl", [{"id": 1, "body": "One.", "label": "a", "source": "wire"}]))
    assert read_texts(write(tmp_path, "a.jsonl", [{"source": "Eins."}])).rows[0].text == "Eins."


# -- A stream of texts -----------------------------------------------------------------------------------------------

WORDS = ["one text", "another, longer text", "third"]


def write_words(folder, ending):
    rows = [{"text": word, "label": "x"} for word in WORDS]
    return write(folder, f"texts.{ending}", "\n".join(WORDS) + "\n\n\n" if ending == "txt" else rows)


@pytest.mark.parametrize("ending", ["txt", "csv", "tsv", "jsonl", "parquet"])
def test_a_stream_repeats_the_rows_of_the_file_as_requested(tmp_path, ending):
    path = write_words(tmp_path, ending)
    stream, rows = RowStream(path), read_texts(path).rows
    assert (stream.num_rows, stream.num_skipped) == (3, 0)
    assert list(stream) == rows and list(stream) == rows
    assert [row.text for row in rows] == WORDS


@example(lines=['{"text": 3}'])
@given(st.lists(st.sampled_from(['{"text": "a"}', '{"text": 3}', "nonsense", '{"text": "b"}', ""]), min_size=1))
def test_bad_rows_are_those_of_a_whole_reading(tmp_path_factory, lines):
    path = tmp_path_factory.mktemp("rows") / "in.jsonl"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")

    def outcome(read):
        try:
            return read()
        except RowErrors as error:
            return str(error)
        except InputError:
            return "nothing there"

    for skip in (False, True):
        whole = outcome(lambda skip=skip: read_texts(path, skip_bad_rows=skip).rows)
        assert outcome(lambda skip=skip: list(RowStream(path, skip_bad_rows=skip))) == whole


def test_standard_input_is_given_as_it_comes_and_its_bad_rows_end_it(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\nb\n\nc\n\nd\n")))
    stream = RowStream("-")
    given = []
    with pytest.raises(RowErrors) as caught:
        given.extend(row.text for row in stream)
    assert stream.num_rows is None and len(caught.value.rows) == 2 and "c" not in given


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes of POSIX")
@pytest.mark.parametrize("ending", ["txt", "csv", "jsonl"])
def test_a_named_pipe_is_read_once(tmp_path, ending):
    content, pipe = write_words(tmp_path, ending).read_bytes(), tmp_path / f"pipe.{ending}"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(content))
    writer.start()
    assert [row.text for row in RowStream(pipe)] == WORDS
    writer.join(10)


@pytest.mark.parametrize("ending", ["txt", "csv", "jsonl"])
def test_no_more_than_a_row_is_held(tmp_path, ending):
    rows = [{"text": "a text of some length " * 200}] * 1500
    content = "".join(row["text"] + "\n" for row in rows) if ending == "txt" else rows
    path = write(tmp_path, f"large.{ending}", content)
    count, peak = peak_of(lambda: sum(1 for _ in RowStream(path)))
    assert count == 1500 and peak < path.stat().st_size / 4, f"{peak:,} of {path.stat().st_size:,} bytes"


# -- Frames of other libraries as texts and pairs --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("library", "made"),
    [("pyarrow", "table"), ("pandas", "DataFrame"), ("polars", "DataFrame"), ("datasets", "Dataset.from_dict")],
)
def test_frames_of_installed_libraries_are_read(library, made):
    frame = attrgetter(made)(pytest.importorskip(library))({"text_pair": ["c"], "text": ["a"]})
    assert split_pairs(frame) == (["a"], ["c"])


# -- Line-aligned files ----------------------------------------------------------------------------------------------


def files(folder, source, target):
    return write(folder, "a.de", source), write(folder, "a.en", target)


def test_line_n_belongs_to_line_n(tmp_path):
    table = read_parallel(*files(tmp_path, "eins\nzwei \n", "one\ntwo\n"))
    assert [(row.text, row.label, row.line) for row in table.rows] == [("eins", "one", 1), ("zwei", "two", 2)]


@pytest.mark.parametrize(
    ("source", "target", "said"),
    [
        ("1\n2\n3\n", "1\n2\n", "a.en ends after line 2.*line 3"),
        ("1\n", "1\n2\n", "a.de ends after line 1"),
        ("", "1\n", "a.de is empty"),
    ],
)
@pytest.mark.parametrize("skips", [False, True])
def test_unequal_counts_name_the_line_and_are_never_skipped(tmp_path, source, target, said, skips):
    with pytest.raises(InputError, match=said):
        read_parallel(*files(tmp_path, source, target), skip_bad_rows=skips)


def test_empty_sides_are_all_listed_or_counted(tmp_path):
    both = files(tmp_path, "eins\n\ndrei\nvier\n\nsechs\n\n", "one\ntwo\n \nfour\n\nsix\n\n")
    with pytest.raises(RowErrors) as error:
        read_parallel(*both)
    found = [(Path(row.file).name, row.line) for row in error.value.rows]
    assert found == [("a.de", 2), ("a.en", 3), ("a.de", 5), ("a.en", 5)]
    table = read_parallel(*both, skip_bad_rows=True)
    assert ([row.line for row in table.rows], table.num_skipped) == ([1, 4, 6], 3)


def test_one_file_on_both_sides_pairs_each_line_with_itself_and_is_reported(tmp_path, capsys):
    source, _ = files(tmp_path, "ein Hund\nzwei Hunde\n", "\n")
    rows = read_parallel(source, source).rows
    assert [(row.text, row.label) for row in rows] == [("ein Hund", "ein Hund"), ("zwei Hunde", "zwei Hunde")]
    assert "is both source and target" in capsys.readouterr().err


# -- Training files of fastText --------------------------------------------------------------------------------------

LINES = "__label__sauce __label__cheese How much  cheese ?\n\n__label__bread Rise of dough\n"


@pytest.mark.parametrize("name", ["cooking.train", "train.txt", "a.ft"])
@pytest.mark.compatibility(
    "fastText 0.9",
    theirs="words that begin with __label__ are the labels of a line, wherever they stand",
    ours="such a file is read as labeled texts by its content, whatever its name",
)
def test_labels_of_fasttext_are_read(tmp_path, name):
    path = write(tmp_path, name, LINES)
    assert is_fasttext(path) and find_reader(path).name == "texts"
    table = Classification.read(path)
    assert [(row.text, row.label, row.line) for row in table.rows] == [
        ("How much  cheese ?", "sauce|cheese", 1),
        ("Rise of dough", "bread", 3),
    ]
    assert [row.text for row in read_texts(path).rows] == [row.text for row in RowStream(path)]
    path.write_text("__label__a one\n__label__b two\n")
    assert not Classification.read(path).form.multi_label


def test_broken_lines_are_named(tmp_path):
    path = write(tmp_path, "a.txt", LINES * 10 + "no label here\n__label__a\n__label__ empty\n")
    with pytest.raises(RowErrors, match="a.txt:31: .*the label is missing") as caught:
        Classification.read(path)
    assert "a.txt:32: column 'text': the text is empty" in str(caught.value) and "a.txt:33" in str(caught.value)
    other = write(tmp_path, "b.txt", "a text with __label__ in it\nand another\n")
    assert not is_fasttext(other) and len(read_texts(other)) == 2


def test_a_label_is_changed_in_place(tmp_path):
    changed = relabel(write(tmp_path, "a.txt", LINES), {}, {(3, None): "dough|bread"}).decode()
    assert changed == LINES.replace("__label__bread", "__label__dough __label__bread")
    table = write(tmp_path, "b.csv", 'text;label\n"a; b";x\nc;y\n')
    assert relabel(table, {}, {(2, None): "z"}).decode() == 'text;label\n"a; b";z\nc;y\n'
