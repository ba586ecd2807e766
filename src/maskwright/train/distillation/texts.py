"""The texts of a distillation of sentence embeddings: single sentences, windows of several sentences, and pairs.

A corpus is split into them once, into files of a few thousand texts, which are the parts of the teacher's cache. Each
text is a document of its file; a document of two sentences is a pair.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from ...core import storage
from ...core.errors import RunError
from ...core.progress import note, track
from ...core.randomness import generator
from ...data.prepare import contents, identity
from ...text.readers.corpus import CorpusFacts, Document, corpus_files, finish, read_documents, read_file
from ...text.tokenizers.tokenizer import Tokenizer

PART_TEXTS = 8192
SINGLE_SHARE, WINDOW_SHARE, PAIR_SHARE = 0.75, 0.15, 0.10  # fractions of the sentences
SHORTEST_WINDOW = 0.2  # fraction of max_length
TOKEN_CHARACTERS = 4  # slightly fewer than an English token has, so that few windows are truncated
FACTS = "texts.json"


@dataclass(frozen=True)
class Texts:
    """The files with the texts of a corpus, in order, and the number of texts."""

    files: list[Path]
    count: int


def make_texts(
    sources: Sequence[str], folder: Path, tokenizer: Tokenizer, max_length: int, seed: int, skip_bad_rows: bool
) -> Texts:
    """The texts of a corpus; writes them to `folder` unless it exists (it is complete or absent).

    Raises RunError if the corpus has changed since, and the errors of `text.readers.corpus.read_documents`.
    """
    names = corpus_files(list(sources))
    found = [identity(name) for name in names]
    if (folder / FACTS).is_file():
        facts = storage.read_json(folder / FACTS)
        if contents(facts["sources"]) != contents(found):
            raise RunError(f"The corpus is not the one that {folder} was made from: restore it, or use --restart.")
        return Texts(_files(folder), facts["texts"])
    counts, read = [0], CorpusFacts()
    with storage.new_folder(folder) as new, track("Splitting the corpus into texts", None, "texts") as progress:
        for name in names:
            documents = read_file(name, "text", False, read)
            texts = _known(_split(documents, max_length, seed), tokenizer)
            for part in iter(lambda: list(islice(texts, PART_TEXTS)), []):  # noqa: B023
                path = new / f"{len(counts) - 1:05d}.txt"
                storage.write_text(path, "".join("\n".join(text) + "\n\n" for text in part))
                counts.append(len(part))
                progress.update(sum(counts))
        finish(read, names, skip_bad_rows)
        storage.write_json(new / FACTS, {"sources": found, "texts": sum(counts), "seed": seed})
    note(f"{sum(counts):,} texts: single sentences, windows of several sentences, and pairs.")
    return Texts(_files(folder), sum(counts))


def read_texts(path: Path) -> Iterator[str]:
    """The texts of a file as the teacher reads them: a pair is one text."""
    return (" ".join(document.sentences) for document in read_documents(path))


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.txt"))


def _split(documents: Iterable[Document], max_length: int, seed: int) -> Iterator[tuple[str, ...]]:
    """Split documents into texts of one sentence (or one window) or two (a pair). Every sentence is in one text."""
    for number, document in enumerate(documents):
        draws = generator(seed, "texts", number)
        sentences = [" ".join(sentence.split()) for sentence in document.sentences]
        start = 0
        while start < len(sentences):
            size = _window_size(sentences, start, max_length, draws)
            # Shares are of sentences, so the weight of a kind is its share divided by its number of sentences.
            weights = np.array([SINGLE_SHARE, PAIR_SHARE / 2, WINDOW_SHARE / size])
            kind = int(np.searchsorted(np.cumsum(weights) / weights.sum(), draws.random(), side="right"))
            taken = sentences[start : start + (1, 2, size)[kind]]
            yield (" ".join(taken),) if kind == 2 else tuple(taken)
            start += len(taken)


def _window_size(sentences: list[str], start: int, max_length: int, draws: np.random.Generator) -> int:
    """The number of sentences from `start` that fill a window of random length."""
    room = TOKEN_CHARACTERS * max_length * draws.uniform(SHORTEST_WINDOW, 1.0)
    size = 0
    while start + size < len(sentences) and room > 0:
        room -= len(sentences[start + size]) + 1
        size += 1
    return max(size - (room < 0), 1)


def _known(texts: Iterator[tuple[str, ...]], tokenizer: Tokenizer) -> Iterator[tuple[str, ...]]:
    """The texts without sentences that have no token, which token shards would skip."""
    for block in iter(lambda: list(islice(texts, PART_TEXTS)), []):
        sentences = [sentence for text in block for sentence in text]
        is_known = iter([bool(ids) for ids in tokenizer.encode_plain(sentences)])
        for text in block:
            kept = tuple(sentence for sentence in text if next(is_known))
            if kept:
                yield kept
