"""Every bad row is reported, at its physical line and column, and no good row is: files made with known faults."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskwright.core.errors import InputError, RowErrors
from maskwright.text.formats import files
from maskwright.text.readers.tables import read_table

LONG = 2000


@dataclass(frozen=True)
class Piece:
    """Some lines of a file: as bytes, whether they are a good row, and its faults as (line within, column, words)."""

    data: bytes
    is_good: bool = True
    faults: tuple[tuple[int, str | None, str], ...] = ()


def bad(data, column, words, line=0):
    return Piece(data.encode() if isinstance(data, str) else data, False, ((line, column, words),))


def quoted(text):
    return '"' + text.replace('"', '""') + '"'


words = st.text("abc é中🙂\"',;|", min_size=1, max_size=8).filter(str.strip)
bare = st.text("abcé中🙂", min_size=1, max_size=8)
multi_line = st.lists(words, min_size=1, max_size=3).map("\n".join)
bad_bytes = st.sampled_from([b"\xff", b"\xc3", b"\xed\xa0\x80"])

good_csv = st.builds(lambda text, label: Piece(f"{quoted(text)},{label}".encode()), multi_line, bare)
blank = st.sampled_from([Piece(b"", False), Piece(b"  ", False)])


@st.composite
def bad_utf8(draw):
    lines = draw(st.lists(bare, max_size=2))
    text = '"' + "".join(line + "\n" for line in lines)
    return bad(text.encode() + draw(bad_bytes) + b' x",label', None, "is not valid UTF-8", len(lines))


bad_csv = st.one_of(
    st.builds(lambda text: bad(quoted(text), None, "has 1 column, not 2"), multi_line),
    st.builds(lambda text, label: bad(f"{quoted(text)},{label},more", None, "has 3 columns, not 2"), multi_line, bare),
    st.builds(lambda label: bad(f'" ",{label}', "text", "the text is empty"), bare),
    st.builds(lambda label: bad(f",{label}", "text", "the text is empty"), bare),
    st.builds(lambda text: bad(f"{quoted(text)}, ", "label", "the label is missing"), multi_line),
    st.builds(lambda: Piece(b",", False, ((0, "text", "empty"), (0, "label", "missing")))),
    st.builds(lambda text, label: bad(f'"{text}"x,{label}', None, "text follows the closing quote"), bare, bare),
    st.builds(lambda text, label: bad(f"{text}\ry,{label}", None, "carriage return"), bare, bare),
    st.builds(lambda text, label: bad(f'"{text}\n\0{text}",{label}', None, "is a NUL byte", 1), bare, bare),
    st.builds(lambda label: bad(f'"{"x" * LONG}",{label}', None, "bytes; at most"), bare),
    st.builds(lambda label: bad(f'"a\n{"x" * LONG}\nb",{label}', None, "bytes; at most", 1), bare),
    bad_utf8(),
)

good_jsonl = st.builds(
    lambda text, label: Piece(json.dumps({"text": text, "label": label}).encode()),
    multi_line,
    st.one_of(bare, st.integers(), st.booleans()),
)
bad_jsonl = st.one_of(
    st.sampled_from(
        [
            bad("[1, 2]", None, "expected a JSON object, not a list"),
            bad('"text"', None, "expected a JSON object, not text"),
            bad('{"text": "a", "label": "b"', None, "not valid JSON"),
            bad("text,label", None, "not valid JSON"),
            bad("[" * 900, None, "JSON"),
            bad('{"text": "a", "text": "b", "label": "c"}', None, "duplicate key 'text'"),
            bad('{"label": "c"}', "text", "the text is missing"),
            bad('{"text": null, "label": "c"}', "text", "the text is missing"),
            bad('{"text": 5, "label": "c"}', "text", "is a number, not text"),
            bad('{"text": ["a"], "label": "c"}', "text", "is a list, not text"),
            bad('{"text": "a\\u0000b", "label": "c"}', "text", "NUL"),
            bad('{"text": "a\\ud800b", "label": "c"}', "text", "a lone surrogate"),
            bad('{"text": "a", "label": "\\udc00"}', "label", "a lone surrogate"),
            bad('{"text": "a", "label": {"b": 1}}', "label", "is an object, not a label"),
            bad('{"text": "a", "label": null}', "label", "the label is missing"),
            bad('{"text": "a"}', "label", "the label is missing"),
            bad('{"text": "a", "label": ' + "9" * 5000 + "}", None, ""),
            bad('{"text": "a\0", "label": "c"}', None, "NUL byte"),
        ]
    ),
    st.builds(lambda text: bad(text.encode() + b"\xff", None, "is not valid UTF-8"), bare),
    st.builds(lambda: bad(json.dumps({"text": "x" * LONG, "label": "a"}), None, "bytes; at most")),
)

# A quote that opens a field may close in a later row: of a few bad rows, either reading is right.
plain = words.filter(lambda text: not text.startswith('"'))
good_tsv = st.builds(lambda text, label: Piece(f"{text}\t{label}".encode()), plain, bare)
bad_tsv = st.one_of(
    st.builds(lambda text: bad(text, None, "has 1 column, not 2"), plain),
    st.builds(lambda text: bad(f"{text}\tb\tc", None, "has 3 columns, not 2"), plain),
    st.builds(lambda text: bad(f"\t{text}", "text", "the text is empty"), plain),
    st.builds(lambda text: bad(f"{text}\t", "label", "the label is missing"), plain),
    st.builds(lambda text: bad(f"{text}\0\tb", None, "NUL"), plain),
    st.builds(lambda text: bad(text.encode() + b"\xc3\tb", None, "is not valid UTF-8"), plain),
    st.builds(lambda: bad("x" * LONG + "\tb", None, "bytes; at most")),
)


def check(folder, name, header, pieces, crlf, bom):
    """Write the pieces under a header, read them back and compare with what is known about each."""
    data, line, expected, good = header, 1 + header.count(b"\n"), [], []
    for piece in pieces:
        expected += [(line + offset, column, text) for offset, column, text in piece.faults]
        good += [line] if piece.is_good else []
        data += piece.data + b"\n"
        line += 1 + piece.data.count(b"\n")
    path = folder / name
    path.write_bytes(b"\xef\xbb\xbf" * bom + (data.replace(b"\n", b"\r\n") if crlf else data))
    if expected:
        with pytest.raises(RowErrors) as caught:
            read_table(path)
        found = caught.value.rows
        assert [(row.line, row.column) for row in found] == [(line, column) for line, column, _ in expected]
        for row, (_, _, text) in zip(found, expected, strict=True):
            assert text in row.reason and row.file == str(path) and "\n" not in row.reason
    if good:
        table = read_table(path, skip_bad_rows=True)
        assert [row.line for row in table.rows] == good
        assert {(error.line, error.column) for error in table.skipped} == {(row[0], row[1]) for row in expected}


@pytest.fixture(autouse=True)
def short_lines(monkeypatch):
    monkeypatch.setattr(files, "MAX_LINE_BYTES", LONG // 2)


def mixture(good, faulty):
    return st.lists(st.one_of(good, good, faulty, faulty, blank), min_size=1, max_size=8)


@given(pieces=mixture(good_csv, bad_csv), crlf=st.booleans(), bom=st.booleans())
def test_csv_faults_are_all_found_where_they_are(tmp_path_factory, pieces, crlf, bom):
    check(tmp_path_factory.mktemp("csv"), "a.csv", b"text,label\n", pieces, crlf, bom)


@given(pieces=mixture(good_tsv, bad_tsv), crlf=st.booleans(), bom=st.booleans())
def test_tsv_faults_are_all_found_where_they_are(tmp_path_factory, pieces, crlf, bom):
    check(tmp_path_factory.mktemp("tsv"), "a.tsv", b"text\tlabel\n", pieces, crlf, bom)


@given(pieces=mixture(good_jsonl, bad_jsonl), crlf=st.booleans(), bom=st.booleans())
def test_jsonl_faults_are_all_found_where_they_are(tmp_path_factory, pieces, crlf, bom):
    first = b'{"text": "first", "label": "x"}\n'
    line = Piece(first[:-1])
    check(tmp_path_factory.mktemp("jsonl"), "a.jsonl", b"", [line, *pieces], crlf, bom)


@given(st.lists(st.sampled_from(["1", "-2.5", " 3e4 ", "nan", "inf", "-Infinity", "x", "1_0", "", "1,5"]), min_size=1))
def test_targets_that_are_no_finite_numbers_are_found(tmp_path_factory, labels):
    path = tmp_path_factory.mktemp("numbers") / "a.tsv"
    path.write_text("text\tscore\n" + "".join(f"t\t{label}\n" for label in labels))
    wrong = [line for line, label in enumerate(labels, start=2) if label not in ("1", "-2.5", " 3e4 ")]
    try:
        found = read_table(path, numeric=True, skip_bad_rows=True).skipped
    except InputError:
        assert len(wrong) == len(labels)
        return
    assert [error.line for error in found] == wrong
    assert all(error.column == "score" for error in found)


def test_a_quote_that_is_never_closed_hides_no_row_behind_it(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('text,label\ngood,a\n"open,b\nfine,c\n"also fine",d\n"never closed,e\nlast,f\n')
    with pytest.raises(RowErrors) as caught:
        read_table(path)
    assert [row.line for row in caught.value.rows] == [3, 6]
    assert "closing quote of a field on line 5" in caught.value.rows[0].reason
    assert "never closed" in caught.value.rows[1].reason
    assert [row.text for row in read_table(path, skip_bad_rows=True).rows] == ["good", "fine", "also fine", "last"]


def test_a_file_of_open_quotes_is_read_in_linear_time(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("text,label\nfine,a\n" + '"open,b\n' * 20_000)
    with pytest.raises(RowErrors) as caught:
        read_table(path)
    assert [row.line for row in caught.value.rows] == list(range(3, 20_003))


def test_json_nested_without_end_is_a_bad_row(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MAX_LINE_BYTES", 1 << 20)
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a", "label": "b"}\n{"text": ' + "[" * 200_000 + "\n")
    with pytest.raises(RowErrors) as caught:
        read_table(path)
    assert [row.line for row in caught.value.rows] == [2]
    assert "nested too deeply" in caught.value.rows[0].reason


def test_a_first_row_that_cannot_be_read_is_reported_even_when_bad_rows_are_skipped(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"te\xffxt,label\na,b\nc\xff,d\n")
    with pytest.raises(RowErrors) as caught:
        read_table(path, skip_bad_rows=True)
    assert [row.line for row in caught.value.rows] == [1, 3]


@pytest.mark.compatibility(
    "pandas 3.1.1",
    theirs="to_json writes an object of columns by default, records only with orient='records' or 'table'",
    ours="records are read, also in {'data': [...]}; an object of columns is rejected with the setting to use",
)
@pytest.mark.parametrize(
    ("content", "is_read"),
    [
        ({"version": "1", "data": [{"text": "One.", "label": "a"}]}, True),
        ({"schema": {"fields": []}, "data": [{"index": 0, "text": "One.", "label": "a"}]}, True),
        ({"text": {"0": "One."}, "label": {"0": "a"}}, False),
        ({"text": ["One."], "label": ["a"]}, False),
        ({"columns": ["text", "label"], "index": [0], "data": [["One.", "a"]]}, False),
        ({"text": "One.", "label": "a"}, True),
    ],
)
def test_an_object_of_records_is_read_and_one_of_columns_is_not(tmp_path, content, is_read):
    path = tmp_path / "a.json"
    path.write_text(json.dumps(content, indent=1))
    if is_read:
        assert [(row.text, row.label) for row in read_table(path).rows] == [("One.", "a")]
    else:
        with pytest.raises(InputError, match=r'object of columns \(text, label\).*orient="records"'):
            read_table(path)
