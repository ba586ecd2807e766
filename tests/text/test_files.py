"""Files, corpora and passages: opened, decompressed, split and counted; unreadable ones are rejected."""

import gzip
import io
import json
import lzma
import random
import sys
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.samples import TEXTS, tokenizer
from maskwright.core.errors import InputError, MissingExtraError, MissingFileError, RowErrors
from maskwright.text.formats.files import expand, file_format, read_lines
from maskwright.text.readers import corpus
from maskwright.text.readers.corpus import MAX_PARAGRAPH, CorpusFacts, bad_rows_of, cut, read_documents, read_passages
from maskwright.text.tokenizers.tokenizer import Tokenizer

PACK = {".gz": gzip.compress, ".xz": lzma.compress, ".zst": lambda data: zstandard.ZstdCompressor().compress(data)}
TEXT = "one\n\ntwo  three\nвоєн 中文 🙂\nlast".encode()


def pack(path, data):
    path.write_bytes(PACK[path.suffix](data) if path.suffix in PACK else data)
    return path


def lines_of(path, data):
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
    for size in [1, 5, 9, *range(40, len(packed), 97), len(packed) - 1]:
        path.write_bytes(packed[:size])
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
def tree(tmp_path):
    for name in ["b.txt", "a.jsonl", "sub/c.txt.gz", "sub/notes.md", ".hidden/d.txt", "sub/.e.txt", "list.tsv"]:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x\n")
    return tmp_path


def shown(names, tree):
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


# -- A corpus is a stream of documents, the same from every format; bad rows and limits are --------------------------

PLAIN = "One.\nTwo three. Four.\n\n\n  \n Five. \n\nSix 🙂\n"


def write(folder, name, content):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def sentences(source, **options):
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

    def peak(copies):
        path = write(tmp_path, "a.txt", b"A line of text that repeats itself.\n" * (3_000 * copies))
        tracemalloc.start()
        for _ in read_documents(path):
            pass
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    assert peak(8) < 1.2 * peak(2)


# -- data sets of the hub ----------------------------------------------------------------------------------------


def fake_library(calls, known, version):
    def load_dataset(name, config, **options):
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

    def offline(*_, **__):
        raise ConnectionError("Couldn't reach the Hub")

    monkeypatch.setattr(library, "load_dataset", offline)
    with pytest.raises(InputError, match="Couldn't reach the Hub"):
        sentences("hub:plain")
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingExtraError, match=r"maskwright\[data\]"):
        sentences("hub:plain")


# -- Passages are stretches of their source --------------------------------------------------------------------------

WORST = (
    "\ufeffÜber naïve cafés: e\u0301toile. 🙂 👩‍👩‍👧 are here!\r\n"
    "Zweite Zeile\u2028mit Trennern\x85und mehr.\n"
    "\r\n"
    "日本語の文です。二つ目の文。\n"
    " \t\u00a0\n"
    "العربية نص. \u202eabc\u202c\n\n\n"
    "last one without an end"
)


def passages(path, max_tokens, **options):
    return list(read_passages(str(path), tokenizer(), max_tokens, **options))


@pytest.mark.parametrize("max_tokens", [1, 3, 8, 100])
def test_a_span_is_the_sources_characters_whatever_they_are(tmp_path, max_tokens):
    path = tmp_path / "worst.txt"
    path.write_bytes(WORST.encode("utf-8"))
    source = path.read_bytes().decode("utf-8")
    found = passages(path, max_tokens)
    assert all(source[one.start : one.end] == one.text for one in found)
    assert all(source.count("\n", 0, one.start) + 1 == one.line for one in found)
    assert "".join("".join(one.text for one in found).split()) == "".join(source.removeprefix("\ufeff").split())
    ends = [(one.start, one.end) for one in found]
    assert ends == sorted(ends) and all(one[1] <= other[0] for one, other in zip(ends, ends[1:], strict=False))


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=120), st.integers(1, 9))
def test_segmentation_loses_no_character(text, max_tokens):
    spans = cut(text, tokenizer(), max_tokens)
    assert "".join("".join(text[start:end].split()) for start, end in spans) == "".join(text.split())


@given(st.lists(st.sampled_from(" ".join(TEXTS).split()), max_size=40), st.integers(9, 20))
def test_no_passage_is_longer_than_the_limit_and_no_word_is_cut(words, max_tokens):
    text = " ".join(words)
    pieces = [text[start:end] for start, end in cut(text, tokenizer(), max_tokens)]
    assert all(len(ids) <= max_tokens for ids in tokenizer().encode_plain(pieces))
    longest = max((len(ids) for ids in tokenizer().encode_plain(words)), default=0)
    assert longest > max_tokens or " ".join(pieces) == text


def test_sentences_are_joined_while_they_fit():
    words = Tokenizer.train_from_iterator(iter(TEXTS), kind="word", vocab_size=100)
    text = "the cat sat . The dog . A mat was there on the floor . Rain ."
    assert [text[start:end] for start, end in cut(text, words, 8)] == [
        "the cat sat . The dog .",
        "A mat was there on the floor .",
        "Rain .",
    ]
    assert len(cut(text, words, 100)) == 1
    assert [text[start:end] for start, end in cut(text, words, 3)][:3] == ["the cat sat", ".", "The dog ."]


def test_paragraphs_are_apart_and_a_giant_one_is_bounded(tmp_path):
    path = tmp_path / "two.txt"
    path.write_text("the cat\nsat .\n\nrain fell\n", encoding="utf-8")
    assert [one.text for one in passages(path, 100)] == ["the cat\nsat .", "rain fell"]
    path.write_text("the cat sat .\n" * (3 * MAX_PARAGRAPH // 14), encoding="utf-8")
    assert max(len(one.text) for one in passages(path, 10**9)) <= MAX_PARAGRAPH


def test_rows_of_tables_are_paragraphs_with_their_line(tmp_path):
    rows = [{"text": "the cat sat ."}, {"text": "rain\nfell"}]
    path = tmp_path / "rows.jsonl.gz"
    path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))
    assert [(one.text, one.line, one.start) for one in passages(path, 100)] == [
        ("the cat sat .", 1, 0),
        ("rain\nfell", 2, 0),
    ]
    table = tmp_path / "rows.csv"
    table.write_text("id,body\n1,the cat\n2,\n", encoding="utf-8")
    assert [one.text for one in passages(table, 100, text_field="body")] == ["the cat"]
    assert [error.line for error in bad_rows_of(str(table), "body")] == [3]
