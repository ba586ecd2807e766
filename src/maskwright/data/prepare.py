"""From text to token shards, resumable: a killed preparation goes on behind its last finished shard.

Documents are read in order, exact duplicates dropped, the rest tokenised in batches, several at a time,
while the next ones are read; they are written in the order of the text. Every shard knows the place in the
corpus behind its last document, so a resumed preparation ends with the same bytes as one that was never
interrupted. `shards.json` is written last: a folder has it when all is well, and no other state matters.
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
from ..text.corpus import Source, corpus_files, file_size
from ..text.files import HUB, STDIN
from .duplicates import SeenDigests
from .reading import Batch, Reader
from .shard_writer import ShardWriter, read_state, seal
from .shards import FACTS, UNFINISHED, PlainTokenizer, TokenShards, shard_name, tokenizer_sha256

SHARD_TOKENS = 1 << 24
MOST_WORKERS = 8  # one thread reads, and does not feed more
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
    """Tokenise a corpus into `folder`, or go on with what an interrupted call left there, or just open it.

    sources, text_field, split_lines: as in `text.corpus.read_documents`; keep_duplicates: keep documents
    whose text was there before; skip_bad_rows: leave bad rows out instead of raising RowErrors at the end;
    shard_tokens: a shard is closed by the document that fills it to this size; joint: what stands between the sentences
    of a document, for tokenizers that keep white space; restart: discard what is there.

    Raises RunError when the folder holds a preparation of other text or with other settings, and what
    `read_documents` raises. An unfinished one of other text is discarded, and a note says so.
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
            "sources": [_identity(name) for name in names],
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


def _identity(name: str) -> dict[str, Any]:
    """What tells whether a source is the one of before; of a pipe, which is read once, only the name is known."""
    if name == STDIN or name.startswith(HUB) or not Path(name).is_file():
        return {"name": name}
    return {"name": name, "bytes": Path(name).stat().st_size, "sha256": storage.sha256(name)}


def _difference(old: dict[str, Any], new: dict[str, Any]) -> str | None:
    """In words, in what `new` differs from the recipe `old`; a file is known by its content, not by its name."""
    if old["tokenizer_sha256"] != new["tokenizer_sha256"]:
        return "the tokenizer is another one"
    changed = differences(old["settings"], new["settings"])
    if changed:
        return ", ".join(changed)
    before, after = ([source.get("sha256", source["name"]) for source in recipe["sources"]] for recipe in (old, new))
    if len(before) != len(after):
        return f"the corpus has {len(after)} files where it had {len(before)}"
    for number, (one, other) in enumerate(zip(before, after, strict=True)):
        if one != other:
            return f"{new['sources'][number]['name']} has changed"
    return None


def _check_finished(folder: Path, recipe: dict[str, Any]) -> None:
    difference = _difference(storage.read_json(folder / FACTS), recipe)
    if difference is not None:
        raise RunError(
            f"{folder} holds a corpus that was prepared otherwise: {difference}. Choose another folder, or start over."
        )


def _begin(folder: Path, recipe: dict[str, Any], names: list[str]) -> None:
    """Leave in `folder` only what an interrupted preparation by the same recipe wrote."""
    path = folder / UNFINISHED
    if path.is_file():
        difference = _difference(storage.read_json(path), recipe)
        pipes = [name for name in names if name == STDIN or not (name.startswith(HUB) or Path(name).is_file())]
        if difference is None and pipes:
            shown = "standard input" if pipes[0] == STDIN else pipes[0]
            difference = f"{shown} cannot be read twice"
        if difference is None:
            return
        note(f"The unfinished preparation in {folder} is started over: {difference}.")
    _discard(folder)
    storage.write_json(path, recipe)


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
        """Take up the finished shards; one that is damaged, and those behind it, are made again."""
        while (path := self.folder / shard_name(len(self.writer.finished))).is_dir():
            try:
                storage.verify_folder(path)
                state = read_state(path)
            except CorruptFileError as error:
                note(f"{error} It is made again, and so are those behind it.")
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
            note(f"Going on with the preparation behind {count} finished shards.")

    def run(self) -> None:
        """Read, tokenise and write until the corpus ends; then seal the folder."""
        megabytes = sum(map(file_size, self.reader.names)) / 1e6 or None
        workers = min(usable_cores(), MOST_WORKERS)
        waiting: deque[tuple[Batch, Future[tuple[np.ndarray, np.ndarray]]]] = deque()
        with track("Preparing the corpus", megabytes, "MB") as progress, ThreadPoolExecutor(workers) as pool:
            for batch in self.reader.batches():
                waiting.append((batch, pool.submit(self._encode, batch)))
                if len(waiting) > workers:  # this many batches are in memory, whatever the size of the corpus
                    self._write(*waiting.popleft(), progress)
            while waiting:
                self._write(*waiting.popleft(), progress)
        self.reader.finish(self.skip_bad_rows)
        self.writer.close_last()
        if not self.writer.finished:
            raise InputError("The corpus holds no text that gives a token: there is nothing to prepare.")
        seal(self.folder, self.writer, self.tokenizer, self.recipe, self.reader)

    def _encode(self, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
        """All tokens of a batch [tokens], and the number of tokens of each sentence, int64 [sentences]."""
        ids = self.tokenizer.encode_plain(joined(batch, self.recipe["settings"].get("joint", "")))
        lengths = np.fromiter(map(len, ids), dtype=np.int64, count=len(ids))
        tokens = np.fromiter(chain.from_iterable(ids), dtype=self.writer.dtype, count=int(lengths.sum()))
        return tokens, lengths

    def _write(self, batch: Batch, encoded: Future[tuple[np.ndarray, np.ndarray]], progress: Track) -> None:
        self.writer.add(batch, *encoded.result())
        facts = self.reader.facts
        progress.update(facts.file_bytes / 1e6, f"{facts.documents:,} documents, {self.writer.num_tokens:,} tokens")


def joined(batch: Batch, joint: str) -> list[str]:
    """The sentences of a batch, those that follow another of their document with `joint` before them."""
    if not joint:
        return batch.sentences
    is_first = np.zeros(len(batch.sentences), dtype=bool)
    ends = np.cumsum([0, *batch.sizes])[:-1]
    is_first[ends[ends < len(is_first)]] = True
    return [text if first else joint + text for text, first in zip(batch.sentences, is_first.tolist(), strict=True)]
