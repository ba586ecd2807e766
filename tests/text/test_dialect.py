"""Delimiters and quotes of tables: detected, said, and never guessed from one cell."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path

import pytest

from maskwright.text.formats.records import Dialect, read_records
from maskwright.text.readers.tables import RowStream, read_table


def rows_of(folder: Path, name: str, content: str) -> tuple[list[list[str]], Dialect]:
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
    theirs="a first line sep=; sets the delimiter of a .csv, and is no row",
    ours="the line is skipped, and its delimiter is used",
)
@pytest.mark.parametrize("first", ["sep=;", "\ufeffsep=;", '"sep=;"', "SEP=;"])
def test_a_first_line_may_name_the_delimiter(tmp_path, first):
    path = tmp_path / "a.csv"
    path.write_text(f"{first}\r\ntext;label\r\na, b;x\r\n\r\nc;y,z\r\n", encoding="utf-8", newline="")
    assert [(row.text, row.label, row.line) for row in read_table(path).rows] == [("a, b", "x", 3), ("c", "y,z", 5)]
    path.write_text("sep=,\none; two,x\nthree; four,y\n")
    assert [row.text for row in read_table(path).rows] == ["one; two", "three; four"]


TEXTS = ["plain", 'He said "no", twice', "two\nlines", "a\ttab", '"all quoted"', "", "x" * 40]


@pytest.mark.compatibility(
    "pandas 3.1.1",
    theirs='to_csv(sep="\\t") quotes the fields that hold quotes, tabs or line breaks, and doubles the quotes',
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
