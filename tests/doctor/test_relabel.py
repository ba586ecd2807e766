"""Labels of a file are changed; every other byte stays."""

from __future__ import annotations

import pytest

from maskwright.core.errors import InputError
from maskwright.doctor.fix import relabel

FILES = {
    "a.csv": (
        b'\xef\xbb\xbftext,label,id\r\n"one, ""two""",x,1\r\n\r\n"three\nlines\nhere",x,2\r\nend,x,3\r\n',
        {(4, None): "a,b", (7, None): "y"},
        b'\xef\xbb\xbftext,label,id\r\n"one, ""two""",x,1\r\n\r\n"three\nlines\nhere","a,b",2\r\nend,y,3\r\n',
    ),
    "a.tsv": (b'good "film"\tx\nbad  film \tx', {(2, None): "y"}, b'good "film"\tx\nbad  film \ty'),
    "a.jsonl": (
        b'{"label": 1,"text":"a"}\n\n{"text": "\xc3\xa9", "label": 0.5, "more": [1]}\n',
        {(3, None): "0.25"},
        b'{"label": 1,"text":"a"}\n\n{"text": "\xc3\xa9", "label": 0.25, "more": [1]}\n',
    ),
    "words.jsonl": (
        b'{"tokens": ["a", "b"], "tags": ["O", "O"]}\n',
        {(1, 1): "B-x"},
        b'{"tokens": ["a", "b"], "tags": ["O", "B-x"]}\n',
    ),
    "a.conll": (
        b"# a comment\nAda  NNP  O\r\nmet\tVBD\tO\n\nx O\n",
        {(2, None): "B-per", (3, None): "B-x"},
        b"# a comment\nAda  NNP  B-per\r\nmet\tVBD\tB-x\n\nx O\n",
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_only_the_labels_change(tmp_path, name):
    before, labels, after = FILES[name]
    (tmp_path / name).write_bytes(before)
    assert relabel(tmp_path / name, {}, labels) == after


def test_columns_are_those_of_the_readers(tmp_path):
    (tmp_path / "a.csv").write_text("y,body,label\nx,one,kept\n")
    assert (
        relabel(tmp_path / "a.csv", {"text": "body", "label": "y"}, {(2, None): "z"}) == b"y,body,label\nz,one,kept\n"
    )
    (tmp_path / "a.conll").write_text("Ada B-per NNP\n")
    assert relabel(tmp_path / "a.conll", {"tag": "1"}, {(1, None): "O"}) == b"Ada O NNP\n"
    (tmp_path / "a.conllu").write_text("1\tAda\t_\tNOUN\tNN\t_\t0\troot\t_\t_\n")
    for columns, part in (({}, b"PROPN\tNN\t"), ({"tag": "XPOS"}, b"NOUN\tPROPN\t")):
        assert part in relabel(tmp_path / "a.conllu", columns, {(1, None): "PROPN"})


@pytest.mark.parametrize(
    ("name", "content", "labels", "reason"),
    [
        ("a.json", "{}", {(1, None): "x"}, "one JSON object per line to .jsonl"),
        ("a.parquet", "PAR1", {(1, None): "x"}, "convert it to .jsonl"),
        ("a.tsv", "text\tlabel\na\tx\n", {(9, None): "x"}, "has no line 9"),
        ("a.jsonl", '{"text": "a", "label": 1}\n', {(1, None): "high"}, "'high' is not a number"),
    ],
)
def test_what_cannot_be_changed(tmp_path, name, content, labels, reason):
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=reason):
        relabel(tmp_path / name, {}, labels)
