"""A stream of texts: the rows of `read_texts` in the same order, every bad row found before the first is given."""

from __future__ import annotations

import io
import json
import os
import sys
import threading
import tracemalloc
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from maskwright.core.errors import InputError, RowErrors
from maskwright.text.readers.tables import RowStream, read_texts

WORDS = ["one text", "another, longer text", "third"]


def write(folder: Path, ending: str) -> Path:
    """The words as a file of one of the formats."""
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
def test_a_stream_repeats_the_rows_of_the_file_as_requested(tmp_path: Path, ending: str):
    path = write(tmp_path, ending)
    stream, rows = RowStream(path), read_texts(path).rows
    assert (stream.num_rows, stream.num_skipped) == (3, 0)
    assert list(stream) == rows and list(stream) == rows
    assert [row.text for row in rows] == WORDS


@example(lines=['{"text": 3}'])
@given(st.lists(st.sampled_from(['{"text": "a"}', '{"text": 3}', "nonsense", '{"text": "b"}', ""]), min_size=1))
def test_bad_rows_are_those_of_a_whole_reading(tmp_path_factory: pytest.TempPathFactory, lines: list[str]):
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


def test_standard_input_is_given_as_it_comes_and_its_bad_rows_end_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\nb\n\nc\n\nd\n")))
    stream = RowStream("-")
    given = []
    with pytest.raises(RowErrors) as caught:
        given.extend(row.text for row in stream)
    assert stream.num_rows is None and len(caught.value.rows) == 2 and "c" not in given


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes of POSIX")
@pytest.mark.parametrize("ending", ["txt", "csv", "jsonl"])
def test_a_named_pipe_is_read_once(tmp_path: Path, ending: str):
    content, pipe = write(tmp_path, ending).read_bytes(), tmp_path / f"pipe.{ending}"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(content))
    writer.start()
    assert [row.text for row in RowStream(pipe)] == WORDS
    writer.join(10)


@pytest.mark.parametrize("ending", ["txt", "csv", "jsonl"])
def test_no_more_than_a_row_is_held(tmp_path: Path, ending: str):
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
