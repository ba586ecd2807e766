"""Delimiters, quotes, and what a label cell can be: detected, said, and never guessed from one cell."""

import csv
import io
import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from maskwright.core.errors import InputError, RowErrors
from maskwright.tasks.classification import Classification
from maskwright.text.formats.records import Dialect, read_records
from maskwright.text.readers.tables import RowStream, read_table


def rows_of(folder, name, content):
    (folder / name).write_text(content, encoding="utf-8", newline="")
    dialect = Dialect()
    found = list(read_records(folder / name, name.rpartition(".")[2], dialect=dialect))
    assert not any(record.faults for record in found)
    return [list(record.cells) for record in found], dialect


@pytest.mark.parametrize(
    ("name", "content", "delimiter", "second"),
    [
        ("a.csv", 'text;label\n"a, b";x\nc, d;y\n', ";", ["a, b", "x"]),
        ("a.csv", "Well, a b;x\nNow, c d;y\nSo, e;x\n", ";", ["Now, c d", "y"]),  # one comma in each row
        ("a.csv", "body;score\nabc;3,5\ndef;4,0\n", ";", ["abc", "3,5"]),  # decimal commas
        ("a.csv", "body\tteam\nA, b\tx\nC, d\ty\n", "\t", ["A, b", "x"]),
        ("a.tsv", "text,label\na,b\n", ",", ["a", "b"]),
        ("a.csv", "first; second,x\nthird; fourth,y\n", ",", ["third; fourth", "y"]),
        ("a.csv", "a;b,x\nc;d,y\n", ",", ["c;d", "y"]),  # both fit: the file name decides
        ("a.tsv", "one, two\nthree, four\n", "\t", ["three, four"]),
        ("a.csv", "text\none; two\nthree; four\n", ",", ["one; two"]),
        ("a.csv", 'text|label\na, b|x\n"c | d"|y\n', "|", ["a, b", "x"]),
        ("a.csv", "label|text\nx|a\ty\ny|b; c, d\n", "|", ["x", "a\ty"]),
        ("a.csv", "text|label\nb|c|d\n", ",", ["b|c|d"]),  # not as many bars in each row
        ("a.csv", "text,label\nb,c|d\ne,f|g\n", ",", ["b", "c|d"]),
    ],
)
def test_the_delimiter_is_that_of_the_rows(tmp_path, name, content, delimiter, second):
    rows, dialect = rows_of(tmp_path, name, content)
    assert dialect.delimiter == delimiter and rows[1] == second
    assert bool(dialect.remarks) == (delimiter != {"a.csv": ",", "a.tsv": "\t"}[name])


@pytest.mark.compatibility(
    "Excel",
    theirs="a first line sep=; sets the delimiter of a .csv, and is not a row",
    ours="the line is skipped, and its delimiter is used",
)
@pytest.mark.parametrize("first", ["sep=;", "\ufeffsep=;", '"sep=;"', "SEP=;"])
def test_a_first_line_may_name_the_delimiter(tmp_path, first):
    path = tmp_path / "a.csv"
    path.write_text(f"{first}\r\ntext;label\r\na, b;x\r\n\r\nc;y,z\r\n", encoding="utf-8", newline="")
    assert [(row.text, row.label, row.line) for row in read_table(path).rows] == [("a, b", "x", 3), ("c", "y,z", 5)]
    path.write_text("sep=,\none; two,x\nthree; four,y\n")
    assert [row.text for row in read_table(path).rows] == ["one; two", "three; four"]


TEXTS = ["plain", 'He said "no", twice', "two\nlines", "a\ttab", "name\tvalue\nthree", '"all quoted"', "", "x" * 40]


@pytest.mark.compatibility(
    "pandas 3.1.1",
    theirs='to_csv(sep="\\t") quotes the fields that contain quotes, tabs or line breaks, and doubles the quotes',
    ours="a .tsv that is quoted so is read as it was written, and that is said",
)
@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])
@pytest.mark.parametrize("before", [0, 500])
def test_quoted_tab_separated_files_are_read_as_they_were_written(tmp_path, quoting, before):
    written = io.StringIO()
    writer = csv.writer(written, delimiter="\t", quoting=quoting, lineterminator="\n")
    rows = [["text", "label"], *([["nothing", "x"]] * before), *([text, "y"] for text in TEXTS)]
    writer.writerows(rows)
    found, dialect = rows_of(tmp_path, "a.tsv", written.getvalue())
    assert found == rows and dialect.is_quoted and "quoted" in dialect.remarks[0]


@pytest.mark.compatibility(
    "GLUE",
    theirs="tab-separated files hold bare quotes, single and in pairs, that are text",
    ours="a field that breaks the rules of quoting shows that quotes are text; they stay, and that is said",
)
@pytest.mark.parametrize(
    "cells",
    [
        ['"It was great" , he said', "fine"],
        ['"never closed', "fine"],
        ['he said "hi"', '"Hello"'],
        ['the 5" pipe', '""'],
        ['"one" and "two"', '"three"'],
        ['"Hello"', "plain"],
        ['"I came', "fine", 'and left"'],
        ['"', "fine", "so", '"'],
    ],
)
def test_quotes_that_are_text_stay(tmp_path, cells):
    content = "sentence\tlabel\n" + "".join(f"{cell}\t{n % 2}\n" for n, cell in enumerate(cells))
    found, dialect = rows_of(tmp_path, "a.tsv", content)
    assert [row[0] for row in found[1:]] == cells and not dialect.is_quoted
    assert all("quotes are part of the text" in remark for remark in dialect.remarks)


def test_what_is_detected_is_said_once(tmp_path, capsys):
    path = tmp_path / "a.csv"
    path.write_text("text;label\na;x\nb;y\n")
    assert [row.label for row in read_table(path).rows] == ["x", "y"]
    assert capsys.readouterr().err.count("separated by semicolons") == 1
    stream = RowStream(path)
    assert [row.text for row in stream] == ["a", "b"] == [row.text for row in stream]
    assert capsys.readouterr().err.count("separated by semicolons") == 1


@pytest.mark.parametrize(
    ("content", "text", "label"),
    [
        (
            "travel,Mara moved to Lisbon.\njob,Oskar joined a firm\ntravel,Tom moved.\n",
            "Mara moved to Lisbon.",
            "travel",
        ),
        (
            "3,Wall St. falls,Shares fell again on Monday\n1,War ends,The treaty was signed on Monday\n",
            "Wall St. falls",
            "3",
        ),
        ("0.5,a long text of words\n1.0,another text of words\n", "a long text of words", "0.5"),
        ("Mara moved to Lisbon.,travel\nOskar joined,job\nTom moved.,travel\n", "Mara moved to Lisbon.", "travel"),
        ("good,positive\nbad,negative\nfine,positive\n", "good", "positive"),
        ("premise one,hypothesis one,yes\npremise one,hypothesis two,no\n", "premise one", "yes"),
    ],
)
def test_without_a_header_the_label_may_come_first(tmp_path, capsys, content, text, label):
    path = tmp_path / "a.csv"
    path.write_text(content)
    row = read_table(path).rows[0]
    assert (row.text, row.label) == (text, label)
    assert ("column 1 is read as the label" in capsys.readouterr().err) == content.startswith(label)


@pytest.mark.parametrize(
    ("name", "is_quoted"),
    [("mrpc/dev.tsv", False), ("rte/dev.tsv", False), ("sms_spam/dev.tsv", False), ("agnews/dev.tsv", True)],
)
def test_real_files_are_quoted_or_not(name, is_quoted):
    path = Path(os.environ.get("MASKWRIGHT_DATA", "none")) / name
    if not path.is_file():
        pytest.skip(f"needs {name} in MASKWRIGHT_DATA")
    dialect = Dialect()
    rows = list(read_records(path, "tsv", dialect=dialect))
    assert not any(record.faults for record in rows) and len({len(record.cells) for record in rows}) == 1
    assert dialect.is_quoted == is_quoted


# -- What a label cell can be ----------------------------------------------------------------------------------------


def table(folder, cells, multi_label=None, name="a.jsonl", **columns):
    path = folder / name
    if name.endswith(".csv"):
        quoted = ['"' + str(cell).replace('"', '""') + '"' for cell in cells]
        path.write_text("text,label\n" + "".join(f"text {n},{cell}\n" for n, cell in enumerate(quoted)))
    else:
        path.write_text(
            "".join(json.dumps({"text": f"text {n}", "label": cell}) + "\n" for n, cell in enumerate(cells))
        )
    return read_table(path, multi_label=multi_label, columns=columns or None)


def labels(found):
    return [row.label for row in found.rows]


LISTS = ["a|b", "a", "", "b|c"]


@pytest.mark.parametrize("multi_label", [None, True])
@pytest.mark.parametrize(
    "cells",
    [
        [["a", "b"], ["a"], [], ["b", "c"]],
        ['["a", "b"]', '["a"]', "[]", '["b","c"]'],
        ["['a', 'b']", "['a']", "[]", "['b', 'c']"],
        ["['a' 'b']", "['a']", "[]", "['b'\n 'c']"],
        ["{'a', 'b'}", "('a',)", "[]", "('b', 'c')"],
        ['{"choices": ["a", "b"]}', "a", "[]", '{"choices": ["b", "c"]}'],
        [{"choices": ["a", "b"]}, "a", [], {"choices": ["b", "c"]}],
        ["a|b", "a", "[]", "b | c"],
    ],
    ids=["JSON", "JSON text", "Python", "numpy", "set and tuple", "Label Studio", "objects", "bar"],
)
@pytest.mark.compatibility(
    "datasets 5.2.0",
    theirs="to_csv writes a list of labels as numpy prints it, ['a' 'b'], without commas",
    ours="lists as JSON, Python and numpy print them, and Label Studio's choices, are several labels",
)
def test_lists_are_several_labels_in_every_spelling(tmp_path, capsys, cells, multi_label):
    for name in ("a.jsonl", "a.csv"):
        found = table(tmp_path, cells, multi_label, name)
        assert labels(found) == LISTS and found.form.multi_label
        assert ("lists of labels" in capsys.readouterr().err) == (multi_label is None)
    assert Classification.from_rows(found.rows).multi_label


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet"])
@pytest.mark.parametrize(
    ("cells", "multi_label", "expected"),
    [([["a"], ["a", "b"]], True, ["a", "a|b"]), ([["a"], ["b"]], False, ["a", "b"]), (["a", "b"], False, ["a", "b"])],
)
def test_the_column_may_be_called_labels(tmp_path, name, cells, multi_label, expected):
    rows = [{"text": f"text {n}", "labels": cell} for n, cell in enumerate(cells)]
    if name == "a.jsonl":
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / name)
    assert labels(read_table(tmp_path / name, multi_label=multi_label)) == expected
    (tmp_path / "b.jsonl").write_text('{"text": "text", "labels": ["a", "b"], "label": "c"}\n')
    assert labels(read_table(tmp_path / "b.jsonl")) == ["c"]


def test_lists_are_refused_with_the_setting_where_a_row_has_one_class(tmp_path):
    with pytest.raises(RowErrors, match="a.jsonl:1.*--multi-label"):
        table(tmp_path, [["a", "b"], ["a"]], False)
    assert labels(table(tmp_path, [["a"], ["b"]])) == ["a", "b"]  # lists of one are classes
    assert not table(tmp_path, [["a"], ["b"]]).form.multi_label


@pytest.mark.parametrize(("mark", "name"), [(",", "commas"), ("#", "#"), (";", "semicolons"), (", ", "commas")])
@pytest.mark.compatibility(
    "Doccano 1.8",
    theirs="exports several classes of a text to CSV as job#news",
    ours="read as several labels with --multi-label; without it the question is asked",
)
def test_a_separator_is_asked_for_or_said(tmp_path, capsys, mark, name):
    cells = ["job", f"job{mark}news", "travel", f"travel{mark}news"]
    for file in ("a.csv", "a.jsonl"):
        with pytest.raises(InputError, match="--multi-label if they are lists, or --no-multi-label"):
            table(tmp_path, cells, None, file)
        assert labels(table(tmp_path, cells, False, file)) == cells
        assert labels(table(tmp_path, cells, True, file)) == ["job", "job|news", "travel", "travel|news"]
        assert f"separated by {name}" in capsys.readouterr().err


@pytest.mark.parametrize("multi_label", [None, True])
def test_class_names_with_a_comma_are_no_lists(tmp_path, multi_label):
    cells = ["Food, drink", "Arts, crafts", "Toys", "C#", "Food, drink", "Home; garden"]
    assert labels(table(tmp_path, cells, multi_label, "a.csv")) == cells
    with_bar = ["Food, drink|Toys", "Toys", "Food", "drink"]
    assert labels(table(tmp_path, with_bar, multi_label, "a.csv")) == with_bar


def test_dev_labels_have_the_form_of_the_training_labels(tmp_path):
    train = table(tmp_path, ["job", "job,news", "travel,news", "travel"], True)
    (tmp_path / "dev.jsonl").write_text('{"text": "x", "label": "travel,job"}\n')
    assert labels(Classification.read(tmp_path / "dev.jsonl", like=train)) == ["travel|job"]
    names = table(tmp_path, ["Food, drink|Toys", "Toys"], None)
    (tmp_path / "dev.jsonl").write_text('{"text": "x", "label": "Food, drink"}\n')
    assert labels(Classification.read(tmp_path / "dev.jsonl", like=names)) == ["Food, drink"]


# -- one class, several spellings ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ([1, 1.0, "1", "1.0", 0], ["1", "1", "1", "1", "0"]),
        (["caf\u00e9", "cafe\u0301"], ["caf\u00e9", "caf\u00e9"]),
        ([[1.0, 2], ["1"], ["2.0"]], ["1|2", "1", "2"]),
        ([1.5, "1.5", "v1.0", "01"], ["1.5", "1.5", "v1.0", "01"]),
    ],
)
@pytest.mark.compatibility(
    "pandas 3.1.1",
    theirs="writes an integer column with a missing value as 1.0, 2.0",
    ours="1, 1.0 and '1' are one class, as are NFC and NFD spellings",
)
def test_a_class_has_one_spelling(tmp_path, cells, expected):
    assert labels(table(tmp_path, cells)) == expected


# -- zeros and ones ------------------------------------------------------------------------------------------


def test_indicators_need_names(tmp_path):
    bits = [[1, 0, 0], [0, 1, 1], [0, 0, 0]]
    for cells in (bits, [[bool(bit) for bit in row] for row in bits], ["[1, 0, 0]", "[0 1 1]", "0|0|0"]):
        with pytest.raises(InputError, match="lists of 3 zeros and ones without class names.*classes="):
            table(tmp_path, cells, True)
        assert labels(table(tmp_path, cells, True, classes="travel|job|news")) == ["travel", "job|news", ""]
    with pytest.raises(InputError, match="names 2 classes: name 3"):
        table(tmp_path, bits, True, classes="travel|job")
    with pytest.raises(InputError, match="two or more different class names"):
        table(tmp_path, bits, True, classes="travel|travel")
    assert labels(table(tmp_path, [[0], [0, 2], []], None, classes="a|b|c")) == ["a", "a|c", ""]  # class numbers
    assert labels(table(tmp_path, [0, 1.0, "2"], None, classes="a|b|c")) == ["a", "b", "c"]
    with pytest.raises(InputError, match="'job' is a name itself"):
        table(tmp_path, ["travel", "job"], None, classes="a|b")


ONE_HOT = "id,text,travel,job,news\n7,one,1,0,0\n8,two,0,1,1\n9,three,0,0,0\n"


def test_columns_of_zeros_and_ones_are_asked_for_or_said(tmp_path, capsys):
    path = tmp_path / "a.csv"
    path.write_text(ONE_HOT)
    with pytest.raises(InputError, match="3 columns of 0 and 1 .'travel', 'job', 'news'.: pass --multi-label"):
        read_table(path, multi_label=None)
    assert labels(read_table(path, multi_label=True)) == ["travel", "job|news", ""]
    assert "the labels are the columns of 0 and 1" in capsys.readouterr().err
    chosen = read_table(path, multi_label=True, columns={"label": "travel|job"})
    assert labels(chosen) == ["travel", "job", ""]
    assert labels(Classification(["job", "news"], True).read_known(path)) == ["", "job|news", ""]
    path.write_text(ONE_HOT.replace("two,0", "two,yes"))
    with pytest.raises(RowErrors, match="a.csv:3: .*travel is 'yes', not 0 or 1"):
        read_table(path, multi_label=True, columns={"label": "travel|job"})
    rows = [{"text": "one", "x": 1, "y": False}, {"text": "two", "x": 0, "y": True}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name in ("a.parquet", "a.jsonl"):
        assert labels(read_table(tmp_path / name, multi_label=True)) == ["x", "y"]


# -- Parquet with class names --------------------------------------------------------------------------------


def write_features(path, columns, features):
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    pq.write_table(pa.table(columns).replace_schema_metadata(metadata), path)


@pytest.mark.parametrize("kind", ["Sequence", "List", "LargeList"])
@pytest.mark.compatibility(
    "datasets 5.2.0",
    theirs="to_parquet stores a ClassLabel as integers, and its names only in the schema metadata 'huggingface'",
    ours="integers of labels, lists of labels and tags are read as the names that the metadata hold; -1 is missing",
)
def test_class_names_of_parquet_files_are_read(tmp_path, kind):
    path = tmp_path / "a.parquet"
    label = {"names": ["neg", "pos"], "_type": "ClassLabel"}
    write_features(path, {"text": ["a", "b"], "label": [1, 0]}, {"label": label, "text": {"_type": "Value"}})
    assert labels(read_table(path)) == ["pos", "neg"]
    write_features(path, {"text": ["a", "b"], "label": [[1, 0], []]}, {"label": {"feature": label, "_type": kind}})
    assert labels(read_table(path, multi_label=None)) == ["pos|neg", ""]
    write_features(path, {"text": ["a", "b"], "label": [1, -1]}, {"label": label})
    with pytest.raises(RowErrors, match="a.parquet:2: .*the label is missing"):
        read_table(path)
    write_features(path, {"text": ["a", "b"], "label": [1, 2]}, {"label": label})
    with pytest.raises(RowErrors, match="a.parquet:2: .*2 is none of the 2 classes"):
        read_table(path)


@pytest.mark.compatibility(
    "datasets 5.2.0",
    theirs="a column of texts and lists becomes the type Json, and to_parquet stores its values as JSON text",
    ours="such values are read as what the JSON text contains",
)
def test_json_columns_of_parquet_files_are_decoded(tmp_path):
    path = tmp_path / "a.parquet"
    write_features(path, {"text": ["a", "b"], "label": ['"x"', '["y", "z"]']}, {"label": {"_type": "Json"}})
    assert labels(read_table(path, multi_label=None)) == ["x", "y|z"]
    write_features(path, {"text": ["a", "b"], "label": ['"x"', "[y"]}, {"label": {"_type": "Json"}})
    with pytest.raises(RowErrors, match="a.parquet:2: .*not the JSON that the file declares"):
        read_table(path)
