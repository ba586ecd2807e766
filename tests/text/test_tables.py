"""Labeled texts and pairs: the same rows from every format, whole and as a stream, and error messages."""

from __future__ import annotations

import csv
import gzip
import io
import json
import lzma
import os
import sys
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import example, given
from hypothesis import strategies as st

from maskwright.core.errors import InputError, MissingExtraError, MissingFileError, RowErrors
from maskwright.doctor.fix import relabel
from maskwright.tasks.classification import Classification
from maskwright.text.formats.records import is_fasttext
from maskwright.text.readers.inputs import split_pairs
from maskwright.text.readers.parallel import read_parallel
from maskwright.text.readers.tables import RowStream, find_reader, read_table, read_texts

Table = list[dict[str, str]]


def to_csv(rows):
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue().encode()


def to_tsv(rows):
    lines = ["\t".join(rows[0])] + ["\t".join(row.values()) for row in rows]
    return ("\n".join(lines) + "\n").encode()


def to_jsonl(rows):
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def to_parquet(rows):
    stream = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), stream)
    return stream.getvalue()


WRITERS: dict[str, Callable[[Table], bytes]] = {
    ".csv": to_csv,
    ".tsv": to_tsv,
    ".jsonl": to_jsonl,
    ".parquet": to_parquet,
}
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: zstandard.ZstdCompressor().compress(data),
}
ROWS: Table = [
    {"premise": 'A "man", she said', "hypothesis": "вот 中文 🙂", "label": "yes", "source": "x"},
    {"premise": "two", "hypothesis": ' it"s ', "label": "no", "source": ""},
    {"premise": "three", "hypothesis": "'3'", "label": "yes", "source": "y"},
]


def write(folder, name, content):
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize("packing", list(PACKERS))
@pytest.mark.parametrize("ending", list(WRITERS))
def test_every_format_and_packing_gives_the_same_rows(tmp_path, ending, packing):
    path = write(tmp_path, f"a{ending}{packing}", PACKERS[packing](WRITERS[ending](ROWS)))
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
        (text, label.strip(), line) for (text, label), line in zip(rows, lines, strict=True)
    ]


# -- column mapping ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "roles"),
    [
        ("text,label", {"text": "text", "label": "label"}),
        ("label,source,text", {"text": "text", "label": "label"}),
        ("text,text_pair,label", {"text": "text", "text_pair": "text_pair", "label": "label"}),
        ("sentence,label,source", {"text": "sentence", "label": "label"}),
        ("idx,sentence1,sentence2,score", {"text": "sentence1", "text_pair": "sentence2", "label": "score"}),
        ("question,sentence,label", {"text": "question", "text_pair": "sentence", "label": "label"}),
        ("question1,question2,label", {"text": "question1", "text_pair": "question2", "label": "label"}),
        ("Premise,Hypothesis,Label", {"text": "Premise", "text_pair": "Hypothesis", "label": "Label"}),
        (
            "Quality,#1 ID,#2 ID,#1 String,#2 String",
            {"text": "#1 String", "text_pair": "#2 String", "label": "Quality"},
        ),
        (
            "id,question1,question2,is_duplicate",
            {"text": "question1", "text_pair": "question2", "label": "is_duplicate"},
        ),
        ("gold_label,sentence1,sentence2", {"text": "sentence1", "text_pair": "sentence2", "label": "gold_label"}),
        (" text , label ", {"text": "text", "label": "label"}),
        ("text,score,label", {"text": "text", "label": "label"}),
    ],
)
def test_well_known_names_are_recognised(tmp_path, header, roles):
    width = header.count(",") + 1
    row = ",".join(f"cell{number}" for number in range(width))
    table = read_table(write(tmp_path, "a.csv", f"{header}\n{row}\n"))
    assert table.columns == roles
    names = [name.strip() for name in header.split(",")]
    assert table.rows[0].text == f"cell{names.index(roles['text'])}"
    assert table.rows[0].label == f"cell{names.index(roles['label'])}"


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
    for ending, to_bytes in WRITERS.items():
        path = write(tmp_path, f"a{ending}", to_bytes(rows))
        assert [row.text for row in read_table(path, where={"split": "train"}).rows] == ["t1", "t2", "t4", "t5"]
        with pytest.raises(InputError, match="contains no rows with split = dev"):
            read_table(path, where={"split": "dev"})
        with pytest.raises(InputError, match="no column 'part'"):
            read_table(path, where={"part": "train"})
        with pytest.raises(RowErrors):
            read_table(path, where={"split": "test"})


# -- labels ------------------------------------------------------------------------------------------------------


def test_labels_that_are_not_needed_may_be_missing(tmp_path):
    path = write(tmp_path, "a.jsonl", '{"text": "a", "label": "x"}\n{"text": "b"}\n{"text": "c", "label": null}\n')
    assert [row.label for row in read_table(path, need_label=False).rows] == ["x", None, None]
    unlabeled = read_table(write(tmp_path, "b.csv", "text,other\na,1\n"), need_label=False)
    assert not unlabeled.has_label and unlabeled.rows[0].label is None


def test_a_broken_parquet_file_is_refused_in_words(tmp_path):
    data = to_parquet(ROWS)
    for broken in (b"", data[:-10], b"PAR1" + data[20:], b"not parquet at all"):
        with pytest.raises(InputError, match=r"a\.parquet"):
            read_table(write(tmp_path, "a.parquet", broken))


def test_parquet_without_its_library_names_the_extra(tmp_path, monkeypatch):
    import sys

    path = write(tmp_path, "a.parquet", to_parquet(ROWS))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"maskwright\[data\]"):
        read_table(path)


# -- texts without labels ----------------------------------------------------------------------------------------


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
    import sys

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


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ({"id": 1, "data": "One.", "label": "a", "source": "wire"}, "One."),
        ({"source": "One.", "target": "Eins.", "label": "a"}, "One."),
        ({"id": 1, "body": "One.", "label": "a", "source": "wire"}, None),
    ],
)
def test_a_source_is_a_text_only_with_a_target(tmp_path, row, text):
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(row) + "\n")
    if text is None:
        with pytest.raises(InputError, match="no column for the text.*'body'.*--columns text=NAME"):
            read_table(path)
    else:
        assert read_table(path).rows[0].text == text
    path.write_text('{"source": "Eins."}\n')
    assert read_texts(path).rows[0].text == "Eins."


# -- A stream of texts -----------------------------------------------------------------------------------------------

WORDS = ["one text", "another, longer text", "third"]


def write_words(folder, ending):
    path = folder / f"texts.{ending}"
    if ending == "txt":
        path.write_text("\n".join(WORDS) + "\n\n\n", encoding="utf-8")
    elif ending == "jsonl":
        rows = [{"text": word} for word in WORDS[:2]] + [{"label": "x", "text": WORDS[2]}]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    elif ending == "parquet":
        pq.write_table(pa.table({"text": WORDS, "label": ["x", None, "y"]}), path)
    else:
        mark = "\t" if ending == "tsv" else ","
        quoted = [f'"{word}"' if ending == "csv" else word for word in WORDS]
        path.write_text(
            "\n".join([f"text{mark}label", *(f"{word}{mark}x" for word in quoted)]) + "\n", encoding="utf-8"
        )
    return path


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
    path, text = tmp_path / f"large.{ending}", "a text of some length " * 200
    header = {"csv": "text\n"}.get(ending, "")
    line = json.dumps({"text": text}) if ending == "jsonl" else text
    path.write_text(header + f"{line}\n" * 1500, encoding="utf-8")
    tracemalloc.start()
    try:
        assert sum(1 for _ in RowStream(path)) == 1500
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < path.stat().st_size / 4, f"{peak:,} of {path.stat().st_size:,} bytes"


# -- Frames of other libraries as texts and pairs --------------------------------------------------------------------

OWN = {"text_pair": ["c"], "text": ["a"]}


@pytest.mark.parametrize(
    ("library", "frame_of"),
    [
        ("pyarrow", lambda pyarrow: pyarrow.table(OWN)),
        ("pandas", lambda pandas: pandas.DataFrame(OWN)),
        ("polars", lambda polars: polars.DataFrame(OWN)),
        ("datasets", lambda datasets: datasets.Dataset.from_dict(OWN)),
    ],
)
def test_frames_of_installed_libraries_are_read(library, frame_of):
    assert split_pairs(frame_of(pytest.importorskip(library))) == (["a"], ["c"])


# -- Line-aligned files ----------------------------------------------------------------------------------------------


def files(folder, source, target):
    for name, text in (("a.de", source), ("a.en", target)):
        (folder / name).write_text(text, encoding="utf-8")
    return folder / "a.de", folder / "a.en"


def test_line_n_belongs_to_line_n(tmp_path):
    table = read_parallel(*files(tmp_path, "eins\nzwei \n", "one\ntwo\n"))
    assert [(row.text, row.label, row.line) for row in table.rows] == [("eins", "one", 1), ("zwei", "two", 2)]


@pytest.mark.parametrize(
    ("source", "target", "words"),
    [
        ("1\n2\n3\n", "1\n2\n", ("a.en ends after line 2", "line 3")),
        ("1\n", "1\n2\n", ("a.de ends after line 1",)),
        ("", "1\n", ("a.de is empty",)),
    ],
)
@pytest.mark.parametrize("skips", [False, True])
def test_unequal_counts_name_the_line_and_are_never_skipped(tmp_path, source, target, words, skips):
    with pytest.raises(InputError) as error:
        read_parallel(*files(tmp_path, source, target), skip_bad_rows=skips)
    assert all(word in str(error.value) for word in words)


def test_empty_sides_are_all_listed_or_counted(tmp_path):
    both = files(tmp_path, "eins\n\ndrei\nvier\n\nsechs\n\n", "one\ntwo\n \nfour\n\nsix\n\n")
    with pytest.raises(RowErrors) as error:
        read_parallel(*both)
    assert [(Path(row.file).name, row.line) for row in error.value.rows] == [
        ("a.de", 2),
        ("a.en", 3),
        ("a.de", 5),
        ("a.en", 5),
    ]
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
    path = tmp_path / name
    path.write_text(LINES)
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
    path = tmp_path / "a.txt"
    path.write_text(LINES * 10 + "no label here\n__label__a\n__label__ empty\n")
    with pytest.raises(RowErrors, match="a.txt:31: .*the label is missing") as caught:
        Classification.read(path)
    assert "a.txt:32: column 'text': the text is empty" in str(caught.value) and "a.txt:33" in str(caught.value)
    other = tmp_path / "b.txt"
    other.write_text("a text with __label__ in it\nand another\n")
    assert not is_fasttext(other) and len(read_texts(other)) == 2


def test_a_label_is_changed_in_place(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text(LINES)
    assert relabel(path, {}, {(3, None): "dough|bread"}).decode() == LINES.replace(
        "__label__bread", "__label__dough __label__bread"
    )
    table = tmp_path / "b.csv"
    table.write_text('text;label\n"a; b";x\nc;y\n')
    assert relabel(table, {}, {(2, None): "z"}).decode() == 'text;label\n"a; b";z\nc;y\n'
