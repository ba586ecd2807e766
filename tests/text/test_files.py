"""Files are opened, decompressed and split into physical lines; unreadable files are rejected with an error."""

from __future__ import annotations

import gzip
import io
import lzma
import random
import sys
import tracemalloc
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from maskwright.core.errors import InputError, MissingFileError
from maskwright.text.formats.files import Line, expand, file_format, read_lines

PACK = {
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: zstandard.ZstdCompressor().compress(data),
}
TEXT = "one\n\ntwo  three\nвоєн 中文 🙂\nlast".encode()


def pack(path: Path, data: bytes) -> Path:
    path.write_bytes(PACK[path.suffix](data) if path.suffix in PACK else data)
    return path


def lines_of(path: Path, data: bytes) -> list[Line]:
    return list(read_lines(pack(path, data)))


@pytest.mark.parametrize("ending", ["", ".gz", ".xz", ".zst"])
def test_packed_files_give_the_lines_of_the_plain_one(tmp_path, ending):
    lines = lines_of(tmp_path / f"a.txt{ending}", TEXT)
    assert [line.text for line in lines] == ["one", "", "two  three", "воєн 中文 🙂", "last"]
    assert [line.number for line in lines] == [1, 2, 3, 4, 5]
    assert not any(line.fault for line in lines)


@pytest.mark.parametrize("ending", [".gz", ".xz", ".zst"])
def test_parts_packed_one_after_the_other_are_read_as_one(tmp_path, ending):
    path = tmp_path / f"a.txt{ending}"
    path.write_bytes(PACK[ending](b"one\ntw") + PACK[ending](b"") + PACK[ending](b"o\nthree\n"))
    assert [line.text for line in read_lines(path)] == ["one", "two", "three"]


@pytest.mark.parametrize("ending", [".gz", ".xz", ".zst"])
def test_a_packed_file_cut_off_anywhere_is_refused(tmp_path, ending):
    data = random.Random(1).randbytes(3000).hex().encode()
    packed = PACK[ending](b"\n".join(data[start : start + 60] for start in range(0, len(data), 60)))
    path = tmp_path / f"a.txt{ending}"
    for cut in [1, 5, 9, *range(40, len(packed), 97), len(packed) - 1]:
        path.write_bytes(packed[:cut])
        with pytest.raises(InputError, match=r"a\.txt.* is truncated or damaged"):
            list(read_lines(path))


@settings(max_examples=40)
@given(
    texts=st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0\r\n"), max_size=20), min_size=1),
    crlf=st.booleans(),
    bom=st.booleans(),
    final=st.booleans(),
)
def test_bom_and_carriage_returns_leave_texts_and_numbers_as_they_are(tmp_path_factory, texts, crlf, bom, final):
    texts[0] = texts[0].lstrip("\ufeff")
    if not final and not texts[-1]:
        texts[-1] = "x"
    end = "\r\n" if crlf else "\n"
    content = ("\ufeff" if bom else "") + end.join(texts) + (end if final else "")
    path = tmp_path_factory.mktemp("lines") / "a.txt"
    path.write_bytes(content.encode())
    assert [(line.number, line.text) for line in read_lines(path)] == list(enumerate(texts, start=1))


@given(
    before=st.lists(st.text("aé中🙂", max_size=8), max_size=4),
    head=st.text("aé中", max_size=6),
    bad=st.sampled_from([b"\xff", b"\xc3", b"\xe4\xb8", b"\xed\xa0\x80", b"\xc0\xaf", b"\xf5\x80\x80\x80"]),
    after=st.lists(st.text("aé中🙂", max_size=8), max_size=3),
)
def test_invalid_utf8_is_reported_at_its_line_and_byte(tmp_path_factory, before, head, bad, after):
    path = tmp_path_factory.mktemp("utf8") / "a.txt"
    rows = [text.encode() for text in before] + [head.encode() + bad + b"!"] + [text.encode() for text in after]
    path.write_bytes(b"\n".join(rows) + b"\n")
    faults = {line.number: line.fault for line in read_lines(path) if line.fault}
    assert list(faults) == [len(before) + 1]
    assert f"byte {len(head.encode()) + 1} of the line (0x{bad[0]:02x})" in faults[len(before) + 1]


def test_a_nul_byte_is_reported_at_its_line(tmp_path):
    lines = lines_of(tmp_path / "a.txt", b"fine\nab\0c\nfine\n")
    assert [line.fault is not None for line in lines] == [False, True, False]
    assert "character 3" in lines[1].fault


def test_a_line_of_fifty_megabytes_is_refused_by_number_in_little_memory(tmp_path):
    path = tmp_path / "a.txt"
    with path.open("wb") as handle:
        handle.write(b"first\n")
        for _ in range(50):
            handle.write(b"x" * 1_000_000)
        handle.write(b"\nlast\n")
    tracemalloc.start()
    lines = list(read_lines(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [(line.number, line.text) for line in lines] == [(1, "first"), (2, ""), (3, "last")]
    assert "50,000,001 bytes; at most 16,777,216" in lines[1].fault
    assert peak < 64 << 20


def test_a_packed_bomb_stays_small_in_memory(tmp_path):
    path = tmp_path / "a.txt.zst"
    path.write_bytes(zstandard.ZstdCompressor().compress(b" " * 200_000_000))
    assert path.stat().st_size < 100_000
    tracemalloc.start()
    lines = list(read_lines(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(lines) == 1 and "200,000,000 bytes" in lines[0].fault
    assert peak < 150 << 20


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (gzip.compress(b"text", mtime=0), "gzip"),
        (lzma.compress(b"text"), "xz"),
        (PACK[".zst"](b"text"), "zstd"),
        (b"PK\x03\x04rest", "zip"),
        (b"PAR1rest", "Parquet"),
        ("text".encode("utf-16"), "UTF-16"),
        (random.Random(0).randbytes(5000), "binary"),
        (bytes(5000), "binary"),
        ("наша мова ".encode("cp1251") * 20, "not UTF-8"),
        ("text ".encode("utf-16-le") * 50, "binary"),
    ],
)
def test_a_file_that_is_no_text_is_refused_in_one_sentence(tmp_path, data, words):
    path = tmp_path / "a.txt"
    path.write_bytes(data)
    with pytest.raises(InputError, match=words) as caught:
        list(read_lines(path))
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_standard_input_is_read_and_left_open(monkeypatch):
    stream = io.BytesIO(b"one\ntwo")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(stream))
    assert [line.text for line in read_lines("-")] == ["one", "two"]
    assert not stream.closed


# -- names -------------------------------------------------------------------------------------------------------


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ["b.txt", "a.jsonl", "sub/c.txt.gz", "sub/notes.md", ".hidden/d.txt", "sub/.e.txt", "list.tsv"]:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x\n")
    return tmp_path


def shown(names: list[str], tree: Path) -> list[str]:
    return [Path(name).relative_to(tree).as_posix() for name in names]


def test_a_folder_gives_its_known_files_in_order(tree):
    assert shown(expand(tree, ["txt", "jsonl"]), tree) == ["a.jsonl", "b.txt", "sub/c.txt.gz"]


def test_a_pattern_gives_what_matches(tree):
    assert shown(expand(f"{tree}/*.txt", ["txt"]), tree) == ["b.txt"]
    assert shown(expand(f"{tree}/**/*.gz", ["txt"]), tree) == ["sub/c.txt.gz"]
    with pytest.raises(MissingFileError, match="No file matches"):
        expand(f"{tree}/*.zip", ["txt"])


def test_nothing_to_read_is_refused(tmp_path):
    with pytest.raises(InputError, match="contains no readable file"):
        expand(tmp_path, ["txt"])
    with pytest.raises(MissingFileError):
        expand(tmp_path / "nowhere", ["txt"])
    with pytest.raises(InputError, match="No input file was specified"):
        expand([], ["txt"])


def test_the_ending_tells_the_format_whatever_its_case_and_packing():
    names = ["a.TXT", "a.csv.gz", "a.tsv.XZ", "a.jsonl.zst", "a.parquet", "a.ndjson"]
    assert [file_format(name) for name in names] == ["txt", "csv", "tsv", "jsonl", "parquet", "jsonl"]
    assert file_format("corpus.en", default="txt") == "txt"
    with pytest.raises(InputError, match="Unknown file format"):
        file_format("table.data")
