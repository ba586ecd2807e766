"""Prepares a corpus: tokenizes text into shards. An interrupted preparation resumes after its last finished shard.

Documents are read in order, exact duplicates are removed, and the others are tokenized in parallel batches and written
in their original order. Every shard records the corpus position after its last document, so a resumed preparation
produces the same bytes as an uninterrupted one. `shards.json` is written last: a folder with it is complete.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from ..core import storage
from ..core.config import differences
from ..core.cores import usable_cores
from ..core.errors import CorruptFileError, InputError, RunError
from ..core.progress import note, track
from ..text.formats.files import HUB, STDIN
from ..text.readers.corpus import Source, corpus_files
from .duplicates import SeenDigests
from .reading import Batch, Reader
from .shard_writer import ShardWriter, read_state, seal
from .shards import FACTS, UNFINISHED, PlainTokenizer, TokenShards, read_facts, shard_name, tokenizer_sha256

SHARD_TOKENS = 1 << 24
MOST_WORKERS = 8  # a single reader thread cannot feed more
_WORK = "work"
Encoded = tuple[Batch, np.ndarray, np.ndarray]
"""New documents, all their tokens [tokens], and the number of tokens per sentence, int64 [sentences]."""


def prepare(
    sources: Source,
    tokenizer: PlainTokenizer,
    folder: Path | str,
    *,
    text_field: str = "text",
    split_lines: bool = False,
    keep_duplicates: bool = False,
    skip_bad_rows: bool = False,
    shard_tokens: int = SHARD_TOKENS,
    joint: str = "",
    restart: bool = False,
) -> TokenShards:
    """Tokenizes a corpus into `folder`; resumes an interrupted call, or opens a finished one.

    Args:
        sources, text_field, split_lines: See `text.readers.corpus.read_documents`.
        keep_duplicates: Keep exact duplicates of documents.
        skip_bad_rows: Skip invalid rows instead of raising RowErrors at the end.
        shard_tokens: A shard ends with the document that reaches this size.
        joint: Separator between the sentences of a document, for tokenizers that preserve whitespace.
        restart: Discard existing results.

    Raises RunError if the folder contains a preparation of other text or settings, and the errors of `read_documents`.
    An unfinished preparation of other text is discarded, with a note.
    """
    names = corpus_files(sources)
    folder = Path(folder)
    settings = settings_of(text_field, split_lines, keep_duplicates, shard_tokens, joint)
    with storage.lock(folder):
        recipe = recipe_of(tokenizer, settings, map(identity, names))
        pipes = [name for name in names if name == STDIN or not (name.startswith(HUB) or Path(name).is_file())]
        read = partial(Reader, names, text_field, split_lines)
        return write_shards(
            folder, tokenizer, recipe, read, _encoded, skip_bad_rows=skip_bad_rows, restart=restart, pipes=pipes
        )


def settings_of(
    text_field: str, split_lines: bool, keep_duplicates: bool, shard_tokens: int, joint: str
) -> dict[str, Any]:
    """The settings that decide the content of the shards, as `shards.json` records them."""
    settings = {
        "text_field": text_field,
        "split_lines": split_lines,
        "keep_duplicates": keep_duplicates,
        "shard_tokens": shard_tokens,
    }
    return settings | ({"joint": joint} if joint else {})


def recipe_of(tokenizer: PlainTokenizer, settings: dict[str, Any], sources: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """What is prepared, from what and how. sources: see `identity`."""
    return {"tokenizer_sha256": tokenizer_sha256(tokenizer), "settings": settings, "sources": list(sources)}


def write_shards(
    folder: Path,
    tokenizer: PlainTokenizer,
    recipe: dict[str, Any],
    read: Callable[[SeenDigests | None], Reader],
    encode: Callable[[Reader, PlainTokenizer, str, np.dtype], Iterator[Encoded]],
    *,
    skip_bad_rows: bool,
    restart: bool = False,
    pipes: Sequence[str] = (),
) -> TokenShards:
    """Writes the shards of a corpus into `folder`, whose lock the caller holds; resumes, or opens finished ones.

    read: makes the reader; encode: yields its batches of new documents with their tokens, for a tokenizer, a separator
    of sentences (`joint`) and a type of numbers; pipes: sources that cannot be read twice.
    """
    storage.remove_leftovers(folder)
    if restart:
        _discard(folder)
    if not (folder / FACTS).is_file():
        _begin(folder, recipe, pipes)
        _Preparation(folder, tokenizer, recipe, read).run(encode, skip_bad_rows)
    else:
        check_finished(folder, recipe)
    _clean(folder)
    return TokenShards.open(folder, tokenizer, verify=False)


def identity(name: str) -> dict[str, Any]:
    """Identifies a source; a pipe, which can be read only once, is identified by name."""
    if name == STDIN or name.startswith(HUB) or not Path(name).is_file():
        return {"name": name}
    return {"name": name, "bytes": Path(name).stat().st_size, "sha256": storage.input_sha256(name)}


def contents(sources: Sequence[dict[str, Any]]) -> list[str]:
    """What is compared of sources: the content of files, not their names."""
    return [source.get("sha256", source["name"]) for source in sources]


def _difference(old: dict[str, Any], new: dict[str, Any]) -> str | None:
    """Describes how `new` differs from the recipe `old`; files are identified by content, not name."""
    if old["tokenizer_sha256"] != new["tokenizer_sha256"]:
        return "the tokenizer differs"
    changed = differences(old["settings"], new["settings"])
    if changed:
        return ", ".join(changed)
    before, after = (contents(recipe["sources"]) for recipe in (old, new))
    if len(before) != len(after):
        return f"the corpus has {len(after)} files, previously {len(before)}"
    for number, (one, other) in enumerate(zip(before, after, strict=True)):
        if one != other:
            return f"{new['sources'][number]['name']} has changed"
    return None


def check_finished(folder: Path, recipe: dict[str, Any]) -> None:
    """Raise RunError if the finished corpus in `folder` was prepared by another recipe."""
    difference = _difference(read_facts(folder), recipe)
    if difference is not None:
        raise RunError(
            f"{folder} contains a corpus prepared differently: {difference}. Choose another folder, or restart."
        )


def _begin(folder: Path, recipe: dict[str, Any], pipes: Sequence[str]) -> None:
    """Keeps in `folder` only the results of an interrupted preparation with the same recipe."""
    path = folder / UNFINISHED
    if path.is_file():
        try:
            difference = _difference(storage.read_checked_json(path), recipe)
        except CorruptFileError as error:
            difference = str(error)
        if difference is None and pipes:
            shown = "standard input" if pipes[0] == STDIN else pipes[0]
            difference = f"{shown} cannot be read twice"
        if difference is None:
            return
        note(f"Restarting the unfinished preparation in {folder}: {difference}.")
    _discard(folder)
    storage.write_checked_json(path, recipe)


def _discard(folder: Path) -> None:
    (folder / FACTS).unlink(missing_ok=True)
    (folder / UNFINISHED).unlink(missing_ok=True)
    for path in sorted(folder.glob("shard-*"), reverse=True):
        storage.remove_folder(path)


def _clean(folder: Path) -> None:
    (folder / UNFINISHED).unlink(missing_ok=True)
    storage.remove_folder(folder / _WORK)


class _Preparation:
    """One preparation, from the last finished shard (or the beginning) to the end."""

    def __init__(
        self,
        folder: Path,
        tokenizer: PlainTokenizer,
        recipe: dict[str, Any],
        read: Callable[[SeenDigests | None], Reader],
    ) -> None:
        self.folder, self.tokenizer, self.recipe = folder, tokenizer, recipe
        storage.remove_folder(folder / _WORK)
        settings = recipe["settings"]
        seen = None if settings["keep_duplicates"] else SeenDigests(folder / _WORK)
        self.writer = ShardWriter(folder, tokenizer.vocab_size, settings["shard_tokens"])
        self.reader = read(seen)
        self._resume(seen)

    def _resume(self, seen: SeenDigests | None) -> None:
        """Loads the finished shards; a damaged one and those after it are rebuilt."""
        while (path := self.folder / shard_name(len(self.writer.finished))).is_dir():
            try:
                storage.verify_folder(path)
                state = read_state(path)
            except CorruptFileError as error:
                note(f"{error} Rebuilding this shard and those after it.")
                break
            if seen is not None:
                seen.restore((path / "digests.bin").read_bytes())
            self.writer.finished.append(state)
        count = len(self.writer.finished)
        for path in sorted(self.folder.glob("shard-*"), reverse=True):
            if path.name >= shard_name(count):
                storage.remove_folder(path)
        if count:
            self.reader.go_to(self.writer.finished[-1]["next"])
            note(f"Resuming the preparation after {count} finished shards.")

    def run(
        self, encode: Callable[[Reader, PlainTokenizer, str, np.dtype], Iterator[Encoded]], skip_bad_rows: bool
    ) -> None:
        """Writes the whole corpus, then finalizes the folder."""
        megabytes = sum(source.get("bytes", 0) for source in self.recipe["sources"]) / 1e6 or None
        joint = self.recipe["settings"].get("joint", "")
        facts = self.reader.facts
        with track("Preparing the corpus", megabytes, "MB") as progress:
            for batch, tokens, lengths in encode(self.reader, self.tokenizer, joint, self.writer.dtype):
                self.writer.add(batch, tokens, lengths)
                progress.update(
                    facts.file_bytes / 1e6, f"{facts.documents:,} documents, {self.writer.num_tokens:,} tokens"
                )
        self.reader.finish(skip_bad_rows)
        self.writer.close_last()
        if not self.writer.finished:
            raise InputError("The corpus contains no text with tokens: there is nothing to prepare.")
        seal(self.folder, self.writer, self.tokenizer, self.recipe, self.reader)


def _encoded(reader: Reader, tokenizer: PlainTokenizer, joint: str, dtype: np.dtype) -> Iterator[Encoded]:
    """Tokenizes the batches of a reader in threads, in order."""
    workers = min(usable_cores(), MOST_WORKERS)
    waiting: deque[tuple[Batch, Future[tuple[np.ndarray, np.ndarray]]]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        for batch in reader.batches():
            waiting.append((batch, pool.submit(encode_batch, batch, tokenizer, joint, dtype)))
            if len(waiting) > workers:  # limits the batches in memory
                first, tokens = waiting.popleft()
                yield first, *tokens.result()
        for first, tokens in waiting:
            yield first, *tokens.result()


def encode_batch(batch: Batch, tokenizer: PlainTokenizer, joint: str, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Returns all tokens of a batch [tokens], and the number of tokens per sentence, int64 [sentences]."""
    ids = tokenizer.encode_plain(joined(batch, joint))
    lengths = np.fromiter(map(len, ids), dtype=np.int64, count=len(ids))
    tokens = np.fromiter(chain.from_iterable(ids), dtype=dtype, count=int(lengths.sum()))
    return tokens, lengths


def joined(batch: Batch, joint: str) -> list[str]:
    """Returns the sentences of a batch, with `joint` before all but the first of each document."""
    if not joint:
        return batch.sentences
    is_first = np.zeros(len(batch.sentences), dtype=bool)
    ends = np.cumsum([0, *batch.sizes])[:-1]
    is_first[ends[ends < len(is_first)]] = True
    return [text if first else joint + text for text, first in zip(batch.sentences, is_first.tolist(), strict=True)]
