"""A corpus is a stream of documents, the same from every format; bad rows and limits are counted, never silent."""

from __future__ import annotations

import gzip
import json
import sys
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskwright.core.errors import InputError, MissingExtraError, RowErrors
from maskwright.text.readers import corpus
from maskwright.text.readers.corpus import CorpusFacts, read_documents

PLAIN = "One.\nTwo three. Four.\n\n\n  \n Five. \n\nSix 🙂\n"


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def sentences(source: object, **options: object) -> list[tuple[str, ...]]:
    return [document.sentences for document in read_documents(source, **options)]  # type: ignore[arg-type]


def test_blank_lines_part_documents_and_lines_are_sentences(tmp_path):
    documents = list(read_documents(write(tmp_path, "a.txt", PLAIN)))
    assert [document.sentences for document in documents] == [("One.", "Two three. Four."), ("Five.",), ("Six 🙂",)]
    assert [document.line for document in documents] == [1, 6, 8]
    assert {document.file for document in documents} == {str(tmp_path / "a.txt")}


def test_rows_of_tables_are_documents_cut_by_rule(tmp_path):
    rows = [{"id": 1, "text": "One. Two, he said.\nA new paragraph"}, {"id": 2, "text": 'Mr. "X" came.'}]
    expected = [("One.", "Two, he said.", "A new paragraph"), ('Mr. "X" came.',)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    write(tmp_path, "a.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    write(tmp_path, "a.csv", 'id,text\n1,"One. Two, he said.\nA new paragraph"\n2,"Mr. ""X"" came."\n')
    write(tmp_path, "a.csv.gz", gzip.compress((tmp_path / "a.csv").read_bytes()))
    for name in ("a.parquet", "a.jsonl", "a.csv", "a.csv.gz"):
        assert sentences(tmp_path / name) == expected, name


def test_folders_patterns_and_lists_are_read_in_order(tmp_path):
    write(tmp_path, "b.txt", "second\n")
    write(tmp_path, "a/z.jsonl", '{"text": "first"}\n')
    write(tmp_path, "notes.md", "not read\n")
    assert sentences(tmp_path) == [("first",), ("second",)]
    assert sentences(f"{tmp_path}/*.txt") == [("second",)]
    assert sentences([tmp_path / "b.txt", tmp_path / "a"]) == [("second",), ("first",)]
    assert sentences(tmp_path / "notes.md") == [("not read",)]


def test_facts_count_what_was_read(tmp_path):
    facts = CorpusFacts()
    paths = [write(tmp_path, "a.txt", PLAIN), write(tmp_path, "b.jsonl", '{"text": "Ab. Cd."}\n')]
    documents = list(read_documents(paths, facts=facts))
    assert facts.counts() == {
        "files": 2,
        "file_bytes": sum(path.stat().st_size for path in paths),
        "documents": 4,
        "sentences": 6,
        "characters": sum(len(text) for document in documents for text in document.sentences),
        "skipped_rows": 0,
        "cut_sentences": 0,
        "cut_documents": 0,
    }


faulty_lines = st.sampled_from([b"bad \xff byte", b"nul \0 byte", b"\xc3"])
fine_lines = st.text("ab .é中", min_size=1, max_size=6).filter(str.strip).map(str.encode)


@given(st.lists(st.one_of(faulty_lines, fine_lines, fine_lines, st.just(b"")), max_size=12))
def test_every_bad_line_is_reported_and_no_good_one(tmp_path_factory, lines):
    path = tmp_path_factory.mktemp("corpus") / "a.txt"
    path.write_bytes(b"".join(line + b"\n" for line in [b"fine", *lines]))
    bad = [number for number, line in enumerate(lines, start=2) if b"\xff" in line or b"\0" in line or line == b"\xc3"]
    facts = CorpusFacts()
    kept = [text for document in read_documents(path, skip_bad_rows=True, facts=facts) for text in document.sentences]
    good = [line.decode().strip() for number, line in enumerate(lines, start=2) if line and number not in bad]
    assert kept == ["fine", *good]
    assert [error.line for error in facts.bad_rows] == bad and facts.skipped_rows == len(bad)
    if bad:
        with pytest.raises(RowErrors) as caught:
            list(read_documents(path))
        assert [error.line for error in caught.value.rows] == bad


def test_bad_rows_of_tables_are_reported_with_their_column(tmp_path):
    path = write(tmp_path, "a.jsonl", '{"text": "fine"}\n[]\n{"x": 1}\n{"text": 4}\n{"text": " "}\n\n{"text": "ok"}\n')
    with pytest.raises(RowErrors) as caught:
        sentences(path)
    assert [(row.line, row.column) for row in caught.value.rows] == [(2, None), (3, "text"), (4, "text"), (5, "text")]
    assert sentences(path, skip_bad_rows=True) == [("fine",), ("ok",)]
    path = write(tmp_path, "a.csv", 'text,x\nfine,1\n"two\nlines",2\nshort\nok,3\n')
    with pytest.raises(RowErrors, match=r"a\.csv:5: has 1 column, not 2"):
        sentences(path)


@pytest.mark.parametrize("content", ["", "\n \n\t\n", "\ufeff"])
def test_an_empty_corpus_is_refused(tmp_path, content):
    with pytest.raises(InputError, match=r"The corpus \(.*a\.txt\) contains no text"):
        sentences(write(tmp_path, "a.txt", content))
    for name in ("a.jsonl", "a.csv"):
        with pytest.raises(InputError, match="contains no text"):
            sentences(write(tmp_path, name, content))


# -- limits ------------------------------------------------------------------------------------------------------


def test_a_long_sentence_is_cut_at_spaces_and_loses_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus, "MAX_SENTENCE_CHARACTERS", 10)
    facts = CorpusFacts()
    path = write(tmp_path, "a.txt", "aaaa bbbb cccc dd\nshort\nabcdefghijklmno\n")
    documents = list(read_documents(path, facts=facts))
    assert documents[0].sentences == ("aaaa bbbb", "cccc dd", "short", "abcdefghij", "klmno")
    assert facts.cut_sentences == 2


def test_memory_does_not_grow_with_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus, "MAX_DOCUMENT_CHARACTERS", 30_000)

    def peak(copies: int) -> int:
        path = write(tmp_path, "a.txt", b"A line of text that repeats itself.\n" * (3_000 * copies))
        tracemalloc.start()
        for _ in read_documents(path):
            pass
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    assert peak(8) < 1.2 * peak(2)


# -- data sets of the hub ----------------------------------------------------------------------------------------


def fake_library(calls: list[tuple[object, ...]], known: dict[tuple[str, str | None], list], version: str):
    def load_dataset(name: str, config: str | None, **options: object) -> list:
        calls.append((name, config, options))
        if (name, config) not in known:
            raise FileNotFoundError(f"Dataset '{name}' doesn't exist on the Hub")
        return known[(name, config)]

    return SimpleNamespace(load_dataset=load_dataset, __version__=version)


def test_a_hub_data_set_is_streamed_by_name_and_configuration(monkeypatch):
    rows = [{"text": "One. Two."}, {"text": "Three."}]
    calls: list[tuple[object, ...]] = []
    known = {("wiki", "small"): rows, ("owner/wiki", None): rows, ("owner/wiki", "en"): rows, ("plain", None): rows}
    monkeypatch.setitem(sys.modules, "datasets", fake_library(calls, known, "4.1.0"))
    for name in ("hub:plain", "hub:wiki/small", "hub:owner/wiki", "hub:owner/wiki/en"):
        assert sentences(name) == [("One.", "Two."), ("Three.",)]
    assert all(options == {"split": "train", "streaming": True} for _, _, options in calls)


def test_a_hub_data_set_that_cannot_be_had_is_refused_in_words(monkeypatch):
    library = fake_library([], {("plain", None): [{"text": "x", "label": 1}]}, "4.0")
    monkeypatch.setitem(sys.modules, "datasets", library)
    with pytest.raises(InputError, match=r"hub:other cannot be read .*check the name and the connection"):
        sentences("hub:other")
    with pytest.raises(InputError, match="no column 'body': the columns are text, label"):
        sentences("hub:plain", text_field="body")
    with pytest.raises(InputError, match="is not a data set name"):
        sentences("hub:a/b/c/d")

    def offline(*_: object, **__: object) -> None:
        raise ConnectionError("Couldn't reach the Hub")

    monkeypatch.setattr(library, "load_dataset", offline)
    with pytest.raises(InputError, match="Couldn't reach the Hub"):
        sentences("hub:plain")
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingExtraError, match=r"maskwright\[data\]"):
        sentences("hub:plain")
