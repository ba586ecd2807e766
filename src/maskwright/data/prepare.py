"""Prepares a corpus: tokenizes text into shards. An interrupted preparation resumes after its last finished shard.

Documents are read in order, exact duplicates are removed, and the others are tokenized in parallel batches and written
in their original order. Every shard records the corpus position after its last document, so a resumed preparation
produces the same bytes as an uninterrupted one. `shards.json` is written last: a folder with it is complete.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from ..core import storage
from ..core.config import differences
from ..core.cores import usable_cores
from ..core.errors import CorruptFileError, InputError, RunError
from ..core.progress import Track, note, track
from ..text.formats.files import HUB, STDIN
from ..text.readers.corpus import Source, corpus_files, file_size
from .duplicates import SeenDigests
from .reading import Batch, Reader
from .shard_writer import ShardWriter, read_state, seal
from .shards import FACTS, UNFINISHED, PlainTokenizer, TokenShards, read_facts, shard_name, tokenizer_sha256

SHARD_TOKENS = 1 << 24
MOST_WORKERS = 8  # a single reader thread cannot feed more
_WORK = "work"


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
    settings = {
        "text_field": text_field,
        "split_lines": split_lines,
        "keep_duplicates": keep_duplicates,
        "shard_tokens": shard_tokens,
    }
    settings |= {"joint": joint} if joint else {}
    with storage.lock(folder):
        storage.remove_leftovers(folder)
        recipe = {
            "tokenizer_sha256": tokenizer_sha256(tokenizer),
            "settings": settings,
            "sources": [identity(name) for name in names],
        }
        if restart:
            _discard(folder)
        if not (folder / FACTS).is_file():
            _begin(folder, recipe, names)
            _Preparation(folder, names, tokenizer, recipe, skip_bad_rows).run()
        else:
            _check_finished(folder, recipe)
        _clean(folder)
    return TokenShards.open(folder, tokenizer, verify=False)


def identity(name: str) -> dict[str, Any]:
    """Identifies a source; a pipe, which can be read only once, is identified by name."""
    if name == STDIN or name.startswith(HUB) or not Path(name).is_file():
        return {"name": name}
    return {"name": name, "bytes": Path(name).stat().st_size, "sha256": storage.sha256(name)}


def _difference(old: dict[str, Any], new: dict[str, Any]) -> str | None:
    """Describes how `new` differs from the recipe `old`; files are identified by content, not name."""
    if old["tokenizer_sha256"] != new["tokenizer_sha256"]:
        return "the tokenizer differs"
    changed = differences(old["settings"], new["settings"])
    if changed:
        return ", ".join(changed)
    before, after = ([source.get("sha256", source["name"]) for source in recipe["sources"]] for recipe in (old, new))
    if len(before) != len(after):
        return f"the corpus has {len(after)} files, previously {len(before)}"
    for number, (one, other) in enumerate(zip(before, after, strict=True)):
        if one != other:
            return f"{new['sources'][number]['name']} has changed"
    return None


def _check_finished(folder: Path, recipe: dict[str, Any]) -> None:
    difference = _difference(read_facts(folder), recipe)
    if difference is not None:
        raise RunError(
            f"{folder} contains a corpus prepared differently: {difference}. Choose another folder, or restart."
        )


def _begin(folder: Path, recipe: dict[str, Any], names: list[str]) -> None:
    """Keeps in `folder` only the results of an interrupted preparation with the same recipe."""
    path = folder / UNFINISHED
    if path.is_file():
        try:
            difference = _difference(storage.read_checked_json(path), recipe)
        except CorruptFileError as error:
            difference = str(error)
        pipes = [name for name in names if name == STDIN or not (name.startswith(HUB) or Path(name).is_file())]
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
        names: list[str],
        tokenizer: PlainTokenizer,
        recipe: dict[str, Any],
        skip_bad_rows: bool,
    ) -> None:
        self.folder, self.tokenizer, self.recipe, self.skip_bad_rows = folder, tokenizer, recipe, skip_bad_rows
        storage.remove_folder(folder / _WORK)
        settings = recipe["settings"]
        seen = None if settings["keep_duplicates"] else SeenDigests(folder / _WORK)
        self.writer = ShardWriter(folder, tokenizer.vocab_size, settings["shard_tokens"])
        self.reader = Reader(names, settings["text_field"], settings["split_lines"], seen)
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

    def run(self) -> None:
        """Reads, tokenizes and writes the whole corpus, then finalizes the folder."""
        megabytes = sum(map(file_size, self.reader.names)) / 1e6 or None
        workers = min(usable_cores(), MOST_WORKERS)
        waiting: deque[tuple[Batch, Future[tuple[np.ndarray, np.ndarray]]]] = deque()
        with track("Preparing the corpus", megabytes, "MB") as progress, ThreadPoolExecutor(workers) as pool:
            for batch in self.reader.batches():
                waiting.append((batch, pool.submit(self._encode, batch)))
                if len(waiting) > workers:  # limits the batches in memory
                    self._write(*waiting.popleft(), progress)
            while waiting:
                self._write(*waiting.popleft(), progress)
        self.reader.finish(self.skip_bad_rows)
        self.writer.close_last()
        if not self.writer.finished:
            raise InputError("The corpus contains no text with tokens: there is nothing to prepare.")
        seal(self.folder, self.writer, self.tokenizer, self.recipe, self.reader)

    def _encode(self, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
        """Returns all tokens of a batch [tokens], and the number of tokens per sentence, int64 [sentences]."""
        ids = self.tokenizer.encode_plain(joined(batch, self.recipe["settings"].get("joint", "")))
        lengths = np.fromiter(map(len, ids), dtype=np.int64, count=len(ids))
        tokens = np.fromiter(chain.from_iterable(ids), dtype=self.writer.dtype, count=int(lengths.sum()))
        return tokens, lengths

    def _write(self, batch: Batch, encoded: Future[tuple[np.ndarray, np.ndarray]], progress: Track) -> None:
        self.writer.add(batch, *encoded.result())
        facts = self.reader.facts
        progress.update(facts.file_bytes / 1e6, f"{facts.documents:,} documents, {self.writer.num_tokens:,} tokens")


def joined(batch: Batch, joint: str) -> list[str]:
    """Returns the sentences of a batch, with `joint` before all but the first of each document."""
    if not joint:
        return batch.sentences
    is_first = np.zeros(len(batch.sentences), dtype=bool)
    ends = np.cumsum([0, *batch.sizes])[:-1]
    is_first[ends[ends < len(is_first)]] = True
    return [text if first else joint + text for text, first in zip(batch.sentences, is_first.tolist(), strict=True)]
