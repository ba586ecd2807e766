"""A preparation is the same however it is batched or interrupted; what changed is said; bad input leaves nothing."""

from __future__ import annotations

import hashlib
import io
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.toy_tokenizer import ToyTokenizer, write_corpus
from failing_disk import StoppingFileSystem
from maskwright.core import storage
from maskwright.core.errors import InputError, RowErrors, RunError, StorageError
from maskwright.data import prepare as reading
from maskwright.data.prepare import DIGEST_BYTES, SeenDigests, digest, prepare
from maskwright.data.shards import TokenShards


def contents(folder: Path) -> dict[str, str]:
    """SHA-256 of every file but the lock."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


def run(source: Any, folder: Path, **options: Any) -> TokenShards:
    return prepare(source, ToyTokenizer(), folder, **{"shard_tokens": 600, **options})


@pytest.fixture
def corpus(tmp_path: Path) -> list[Path]:
    """Two files; the second repeats much of the first."""
    return [write_corpus(tmp_path, 20, seed=1, name="a.txt"), write_corpus(tmp_path, 30, seed=1, name="b.txt")]


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "BATCH_CHARACTERS", 500)


def test_batches_and_sorted_files_do_not_change_a_byte(corpus, tmp_path, monkeypatch):
    run(corpus, tmp_path / "one")
    monkeypatch.setattr(reading, "BATCH_CHARACTERS", 200)
    monkeypatch.setattr(reading, "BATCH_DOCUMENTS", 3)
    monkeypatch.setattr(reading.SeenDigests.__init__, "__defaults__", (5,))
    run(corpus, tmp_path / "two")
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    names = {path.name for path in (tmp_path / "two").iterdir() if not path.name.startswith("shard-")}
    assert names == {".lock", "shards.json", "unigram_counts.bin"}


def test_duplicates_are_dropped_or_kept_and_counted(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo\n\nthree\n\none\ntwo\n\none two\n\nthree\n\n...\n\n...\n")
    counts = run(path, tmp_path / "out").counts
    assert (counts["documents"], counts["duplicates"], counts["empty_documents"]) == (3, 3, 1)
    assert counts["documents_read"] == 7
    kept = run(path, tmp_path / "kept", keep_duplicates=True).counts
    assert (kept["documents"], kept["duplicates"], kept["empty_documents"]) == (5, 0, 2)


def test_a_finished_preparation_is_opened_and_not_made_again(corpus, tmp_path):
    first = run(corpus, tmp_path / "out")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*.bin")}
    second = run(corpus, tmp_path / "out")
    assert second.facts == first.facts
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*.bin")} == before


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda options: options.update(keep_duplicates=True), "keep_duplicates"),
        (lambda options: options.update(tokenizer=ToyTokenizer(name="other")), "the tokenizer differs"),
        (lambda options: options["source"][1].write_text("new text\n"), "b.txt has changed"),
        (lambda options: options.update(source=options["source"][:1]), "1 files, previously 2"),
    ],
)
def test_a_finished_preparation_of_something_else_is_kept(corpus, tmp_path, change, words):
    folder = tmp_path / "out"
    run(corpus, folder)
    before = contents(folder)
    options: dict[str, Any] = {"source": corpus, "tokenizer": ToyTokenizer(), "shard_tokens": 600}
    change(options)
    source, tokenizer = options.pop("source"), options.pop("tokenizer")
    with pytest.raises(RunError, match=words):
        prepare(source, tokenizer, folder, **options)
    assert contents(folder) == before
    again = prepare(source, tokenizer, folder, **options, restart=True)
    prepare(source, tokenizer, tmp_path / "fresh", **options)
    assert contents(folder) == contents(tmp_path / "fresh")
    assert again.num_documents > 0


# -- interruptions -----------------------------------------------------------------------------------------------


def in_child(work: Callable[[], object], kill_after_seconds: float | None = None) -> int:
    """Run `work` in a forked process, perhaps killed from outside; returns its wait status."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    if kill_after_seconds is not None:
        time.sleep(kill_after_seconds)
        os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]


def count_operations(work: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> int:
    counter = StoppingFileSystem(0, lambda: None)
    monkeypatch.setattr(storage, "fs", counter)
    work()
    monkeypatch.setattr(storage, "fs", storage.FileSystem())
    return counter.calls


def killed_at(operation: int, source: Any, folder: Path) -> bool:
    """Whether a preparation that is to be killed at a disk operation was still running then."""

    def work() -> None:
        storage.fs = StoppingFileSystem(operation, lambda: os.kill(os.getpid(), signal.SIGKILL))
        run(source, folder)

    return os.WIFSIGNALED(in_child(work))


@pytest.mark.parametrize("share", [0.02, 0.5, 0.8, 1.0])
def test_a_killed_preparation_ends_with_the_same_bytes(corpus, tmp_path, small_batches, monkeypatch, share):
    operations = count_operations(lambda: run(corpus, tmp_path / "whole"), monkeypatch)
    assert killed_at(max(1, int(share * operations)), corpus, tmp_path / "killed")
    assert not (tmp_path / "killed" / "shards.json").exists()
    run(corpus, tmp_path / "killed")
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")


@pytest.mark.slow
def test_a_preparation_killed_at_any_disk_operation_ends_with_the_same_bytes(
    corpus, tmp_path, small_batches, monkeypatch
):
    operations = count_operations(lambda: run(corpus, tmp_path / "whole"), monkeypatch)
    expected = contents(tmp_path / "whole")
    for operation in range(1, operations + 1, 3):
        folder = tmp_path / f"killed-{operation}"
        assert killed_at(operation, corpus, folder)
        killed_at(random.Random(operation).randint(1, operations), corpus, folder)
        run(corpus, folder)
        assert contents(folder) == expected, operation


def test_a_full_disk_at_any_operation_is_a_sentence_and_can_be_gone_on_from(
    corpus, tmp_path, small_batches, monkeypatch
):
    operations = count_operations(lambda: run(corpus, tmp_path / "whole"), monkeypatch)

    def refuse() -> None:
        raise OSError(28, "No space left on device")

    for operation in range(1, operations + 1, max(1, operations // 8)):
        folder = tmp_path / f"full-{operation}"
        monkeypatch.setattr(storage, "fs", StoppingFileSystem(operation, refuse))
        with pytest.raises(StorageError, match="free some space"):
            run(corpus, folder)
        monkeypatch.setattr(storage, "fs", storage.FileSystem())
        assert not list(folder.rglob("*.tmp-*"))
    run(corpus, folder)
    assert contents(folder) == contents(tmp_path / "whole")


def test_an_interrupt_leaves_finished_shards_and_no_rubbish(corpus, tmp_path, small_batches, monkeypatch):
    threads = threading.active_count()
    operations = count_operations(lambda: run(corpus, tmp_path / "whole"), monkeypatch)

    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(storage, "fs", StoppingFileSystem(operations // 2, interrupt))
    with pytest.raises(KeyboardInterrupt):
        run(corpus, tmp_path / "cut")
    monkeypatch.setattr(storage, "fs", storage.FileSystem())
    names = {path.name for path in (tmp_path / "cut").iterdir()}
    assert "shard-00000" in names and "shards.json" not in names and not any(".tmp-" in name for name in names)
    assert threading.active_count() == threads, "a reader was left running"
    with pytest.raises(InputError, match="unfinished preparation"):
        TokenShards.open(tmp_path / "cut")
    run(corpus, tmp_path / "cut")
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")


def test_a_text_changed_in_between_starts_over_and_says_so(corpus, tmp_path, small_batches, capsys):
    assert killed_at(40, corpus, tmp_path / "out")
    assert (tmp_path / "out" / "shard-00000").is_dir()
    corpus[1].write_text("something new\n\nand more\n")
    run(corpus, tmp_path / "out")
    assert "b.txt has changed" in capsys.readouterr().err
    run(corpus, tmp_path / "fresh")
    assert contents(tmp_path / "out") == contents(tmp_path / "fresh")


def test_a_shard_damaged_in_between_is_made_again(corpus, tmp_path, small_batches, capsys):
    run(corpus, tmp_path / "whole")
    assert killed_at(70, corpus, tmp_path / "out")
    path = tmp_path / "out" / "shard-00001" / "tokens.bin"
    path.write_bytes(b"\1" + path.read_bytes()[1:])
    run(corpus, tmp_path / "out")
    assert "Rebuilding this shard" in capsys.readouterr().err
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


# -- bad input ---------------------------------------------------------------------------------------------------


def test_bad_rows_are_all_reported_and_nothing_is_sealed(tmp_path):
    a, b = tmp_path / "a.txt", tmp_path / "b.txt"
    a.write_bytes(b"fine text\n\nbad \xff\n" + b"more text to fill shards\n\n" * 3 + b"other words\n\nnul \0\n")
    b.write_bytes(b"\xff\nfine\n")
    for _ in range(2):  # the second time, the bad rows of finished files are remembered
        with pytest.raises(RowErrors) as caught:
            run([a, b], tmp_path / "out", shard_tokens=20)
        assert [(Path(row.file).name, row.line) for row in caught.value.rows] == [
            ("a.txt", 3),
            ("a.txt", 12),
            ("b.txt", 1),
        ]
        assert (tmp_path / "out" / "shard-00000").is_dir() and not (tmp_path / "out" / "shards.json").exists()
    shards = run([a, b], tmp_path / "out", shard_tokens=20, skip_bad_rows=True)
    assert shards.counts["skipped_rows"] == 3
    run([a, b], tmp_path / "fresh", shard_tokens=20, skip_bad_rows=True)
    assert contents(tmp_path / "out") == contents(tmp_path / "fresh")


@pytest.mark.parametrize("text", ["", "\n\n", "...\n\n!!!\n"])
def test_a_corpus_without_text_is_refused(tmp_path, text):
    path = tmp_path / "a.txt"
    path.write_text(text)
    with pytest.raises(InputError, match="contains no text"):
        run(path, tmp_path / "out")
    assert not (tmp_path / "out" / "shards.json").exists()


def test_standard_input_is_prepared_and_starts_over_when_cut_off(corpus, tmp_path, small_batches, monkeypatch, capsys):
    def feed(text: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))

    text = corpus[0].read_bytes()
    feed(text)
    assert killed_at(40, "-", tmp_path / "out")
    feed(text)
    piped = run("-", tmp_path / "out")
    assert "standard input cannot be read twice" in capsys.readouterr().err
    plain = run(corpus[0], tmp_path / "plain")
    assert [piped.document_tokens(n).tolist() for n in range(len(piped))] == [
        plain.document_tokens(n).tolist() for n in range(len(plain))
    ]


MEASURED = """
import pathlib, re, sys
from maskwright.data.prepare import prepare
from maskwright.text.tokenizers.tokenizer import Tokenizer
tokenizer = Tokenizer.train(sys.argv[1], "wordpiece", 500)
prepare(sys.argv[1], tokenizer, sys.argv[2], shard_tokens=1 << 18)
print(re.search(r"VmHWM:\\s+(\\d+)", pathlib.Path("/proc/self/status").read_text())[1])
"""


def _peak(folder: Path, megabytes: int) -> float:
    """Peak memory in MB of preparing a corpus of documents that are all different."""
    rng = random.Random(0)
    words = ["".join(rng.choices("abcdefghij", k=rng.randint(2, 6))) for _ in range(3000)]
    source = folder / f"{megabytes}.txt"
    with source.open("w", encoding="utf-8") as file:
        while file.tell() < megabytes * 1_000_000:
            file.write("\n".join(" ".join(rng.choices(words, k=20)) for _ in range(8)) + "\n\n")
    command = [sys.executable, "-c", MEASURED, str(source), str(folder / f"{megabytes} MB")]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(found.stdout.split()[-1]) / 1000


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_four_times_the_text_takes_little_more_memory(tmp_path: Path):
    small, large = _peak(tmp_path, 6), _peak(tmp_path, 24)
    assert large - small < 18, f"{small:.0f} MB for 6 MB of text, {large:.0f} MB for 24 MB"


def key(number: int) -> bytes:
    """Digests that share their first half in groups of four."""
    return (number // 4).to_bytes(8, "little") + (number % 4).to_bytes(8, "little")


@given(
    numbers=st.lists(st.integers(0, 40), max_size=80),
    batch=st.integers(1, 9),
    run_size=st.integers(1, 12),
    known=st.lists(st.integers(0, 40), max_size=30, unique=True),
)
def test_only_the_first_of_equal_digests_is_new(tmp_path_factory, numbers, batch, run_size, known):
    seen = SeenDigests(tmp_path_factory.mktemp("seen"), run_size)
    seen.restore(b"".join(map(key, known)))
    fresh: list[bool] = []
    for start in range(0, len(numbers), batch):
        fresh += seen.add([key(number) for number in numbers[start : start + batch]])
    before = set(known)
    for number, is_new in zip(numbers, fresh, strict=True):
        assert is_new == (number not in before)
        before.add(number)
    assert len(seen.recent) < run_size + batch


def test_the_digest_tells_sentences_apart_from_one_long_one():
    assert digest(("a", "b")) != digest(("a b",))
    value, size = digest(("é", "b"))
    assert len(value) == DIGEST_BYTES and size == 4
