"""Token shards of an object store: the same documents as on a local disk, in a bounded cache that processes share."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from data.toy_tokenizer import ToyTokenizer, write_corpus
from maskwright.core import object_store
from maskwright.core.errors import CorruptFileError, InputError, MissingFileError, StorageError
from maskwright.data import streamed
from maskwright.data.prepare import prepare
from maskwright.data.shards import TokenShards
from maskwright.data.streamed import StreamedShards
from maskwright.objectives.stream import ExampleStream, split_documents

pytest.importorskip("pyarrow", reason="the extra 'data' is not installed")
TOKENIZER = ToyTokenizer()


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    prepare(str(write_corpus(folder, 120)), TOKENIZER, folder / "shards", shard_tokens=600)
    return folder / "shards"


@pytest.fixture
def folder(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A corpus of several shards, read by the address of its folder; the cache is empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Path(shutil.copytree(prepared, tmp_path / "shards"))


@pytest.fixture
def downloads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the downloaded token files."""
    copy, found = streamed._copy, []

    def counted(uri: str, path: Path) -> None:
        found.extend([uri.split("/")[-2]] if uri.endswith("tokens.bin") else [])
        copy(uri, path)

    monkeypatch.setattr(streamed, "_copy", counted)
    return found


def opened(folder: Path, gigabytes: float = 1.0) -> StreamedShards:
    return StreamedShards.open_remote(folder.as_uri(), TOKENIZER, gigabytes)


def cached(folder: Path) -> list[Path]:
    return sorted((folder.parent / "cache").glob("maskwright/shards/*/shard-*"))


def test_the_documents_are_those_of_the_folder(folder: Path, downloads: list[str]):
    remote, local = opened(folder), TokenShards.open(folder, TOKENIZER)
    assert len(local.facts["shards"]) > 4
    assert (remote.document_lengths() == local.document_lengths()).all()
    assert (remote.unigram_counts() == local.unigram_counts()).all() and not cached(folder) and not downloads
    for index in range(len(local)):
        assert (remote.document_tokens(index) == local.document_tokens(index)).all()
        assert (remote.sentence_lengths_of(index) == local.sentence_lengths_of(index)).all()
    again = opened(folder)
    assert (again.document_tokens(5) == local.document_tokens(5)).all()
    assert (again.document_lengths() == local.document_lengths()).all()
    assert downloads == [shard["name"] for shard in local.facts["shards"]], "once each"


def test_the_cache_is_bounded_and_drops_what_was_not_used_for_longest(folder: Path, downloads: list[str]):
    remote = opened(folder)
    sizes = [sum(file.stat().st_size for file in path.iterdir()) for path in sorted(folder.glob("shard-*"))]
    remote.cache.limit = 3.5 * max(sizes)
    first = remote.document_tokens(0)
    kept = first.copy()
    for number, shard in enumerate(remote.facts["shards"]):
        remote.cache.shard(number, remote._dtype)
        remote.cache.shard(0, remote._dtype)
        files = [file for path in cached(folder) for file in path.iterdir()]
        assert sum(file.stat().st_size for file in files) <= remote.cache.limit + max(sizes)
        assert {path.name for path in cached(folder)} >= {"shard-00000", shard["name"]}
    assert len(cached(folder)) < len(sizes) and downloads.count("shard-00000") == 1
    assert (first == kept).all(), "a removed shard is readable while it is in use"


def test_threads_and_processes_download_a_shard_once(folder: Path, downloads: list[str]):
    def read(_: int) -> list[int]:
        own = opened(folder)
        return [int(own.document_tokens(index).sum()) for index in range(len(own))]

    with ThreadPoolExecutor(4) as pool:
        sums = list(pool.map(read, range(4)))
    assert sums == [sums[0]] * 4 and len(downloads) == len(set(downloads)) == len(opened(folder).facts["shards"])


def test_a_changed_or_missing_object_is_one_sentence_and_leaves_nothing(folder: Path):
    remote = opened(folder)
    path = folder / "shard-00000/tokens.bin"
    content = path.read_bytes()
    path.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    with pytest.raises(CorruptFileError, match=r"^file://.*/shard-00000/tokens\.bin has changed .*Prepare the corpus"):
        remote.document(0)
    path.unlink()
    with pytest.raises(MissingFileError, match=r"^file://.*/shard-00000/tokens\.bin does not exist\.$"):
        remote.document(0)
    (folder / "unigram_counts.bin").write_bytes(b"x")
    with pytest.raises(CorruptFileError, match=r"unigram_counts\.bin has changed"):
        remote.unigram_counts()
    assert not cached(folder)
    path.write_bytes(content)
    assert len(remote.document(0))


def test_an_unknown_kind_of_address_and_an_unreachable_one_are_told_apart(monkeypatch: pytest.MonkeyPatch):
    from pyarrow import fs

    def unreachable(uri: str) -> Any:
        raise OSError("Bucket 'b' not found\nmore")

    with pytest.raises(InputError, match=r"^tape://b/c/shards\.json has an address of an unknown kind"):
        StreamedShards.open_remote("tape://b/c", TOKENIZER, 1.0)
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    monkeypatch.setattr(fs, "FileSystem", type("FileSystem", (), {"from_uri": staticmethod(unreachable)}))
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(StorageError, match=r"^s3://b/c/shards\.json: Bucket 'b' not found\. Check the address"):
        StreamedShards.open_remote("s3://b/c", TOKENIZER, 1.0)


def test_what_is_not_a_corpus_or_does_not_fit_is_one_sentence(folder: Path):
    with pytest.raises(MissingFileError, match="contains no token shards: .*maskwright scale prepare -o file://"):
        opened(folder.parent)
    with pytest.raises(InputError, match="prepared with another tokenizer"):
        StreamedShards.open_remote(folder.as_uri(), ToyTokenizer(name="other"), 1.0)
    with pytest.raises(InputError, match=r"needs a cache of .* GB, and shard_cache is 1e-07"):
        opened(folder, 1e-7)


def test_a_connection_that_ends_in_a_download_is_one_sentence(folder: Path, monkeypatch: pytest.MonkeyPatch):
    class Lost:
        def read(self, size: int) -> bytes:
            raise OSError(5, "connection reset")

    @contextmanager
    def lost(uri: str) -> Iterator[Lost]:
        with object_store.storage_errors(uri):
            yield Lost()

    remote = opened(folder)
    monkeypatch.setattr(streamed, "reading", lost)
    with pytest.raises(StorageError, match=r"^file://.*/manifest\.json: .*connection reset\. Check the address"):
        remote.document(0)
    assert not cached(folder)


@contextmanager
def small_windows(monkeypatch: pytest.MonkeyPatch, tokens: int) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.setattr(streamed, "WINDOW_TOKENS", tokens)
        yield


def test_an_epoch_reads_each_window_once(folder: Path, downloads: list[str], monkeypatch: pytest.MonkeyPatch):
    with small_windows(monkeypatch, 900):
        remote = opened(folder)
        assert remote.windows is not None and len(set(remote.windows.tolist())) > 3
        remote.cache.limit = remote.least_bytes()
        training, kept = split_documents(remote.document_lengths(), 0.1, 0, remote.windows)
        assert set(remote.windows[kept].tolist()) == {0} and len(kept) + len(training) == len(remote)
        stream = ExampleStream(remote, training, lambda bounds, rng: list(bounds), seed=1, section_tokens=200)  # type: ignore[arg-type,return-value]
        orders = []
        for epoch in range(2):
            order = np.concatenate(stream.sections(epoch))
            changes = np.flatnonzero(np.diff(remote.windows[order]))
            assert len(changes) == len(set(remote.windows[order].tolist())) - 1
            assert sorted(order.tolist()) == training.tolist()
            orders.append(order.tolist())
        assert orders[0] != orders[1]
        for index in orders[1]:
            remote.document_tokens(index)
        assert len(downloads) == len(set(downloads))
