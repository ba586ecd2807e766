"""What both contenders of gpu.py are given: text, a tokenizer, token shards, model folders with random weights."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from maskwright.core.randomness import generator
from maskwright.core.storage import write_json, write_text
from maskwright.data.prepare import prepare
from maskwright.models.build import build
from maskwright.models.presets import preset
from maskwright.speed.bench import texts_of_file
from maskwright.text.tokenizers.tokenizer import Tokenizer

SYLLABLES = [first + vowel for first in "bcdfghklmnprstvw" for vowel in ("a", "e", "i", "o", "u", "ar", "en", "is")]
WORDS = 60_000
DOCUMENT = 20  # sentences
MEAN_WORDS, SPREAD, MOST_WORDS = 22.0, 0.6, 110  # of a sentence: log-normal, as in an encyclopedia


def sentences(count: int) -> list[str]:
    """Sentences of made-up words whose frequencies fall as in text (Zipf), the same every time."""
    draws = generator(0, "gpu text")
    sizes = draws.integers(1, 4, size=WORDS)
    syllables = draws.integers(0, len(SYLLABLES), size=(WORDS, 3))
    words = ["".join(SYLLABLES[part] for part in row[:size]) for row, size in zip(syllables, sizes, strict=True)]
    lengths = np.exp(draws.normal(np.log(MEAN_WORDS) - SPREAD**2 / 2, SPREAD, size=count))
    lengths = np.clip(lengths.round().astype(int), 3, MOST_WORDS)
    chosen = np.minimum(draws.zipf(1.2, size=int(lengths.sum())) - 1, WORDS - 1)
    starts = np.cumsum([0, *lengths])
    return [
        " ".join(words[index] for index in chosen[start:stop]) + "."
        for start, stop in zip(starts, starts[1:], strict=False)
    ]


def prepare_inputs(folder: Path, sizes: dict[str, str], texts: Path | None, count: int, vocab_size: int) -> None:
    """Write corpus, tokenizer, shards, texts.json and models/SIZE into `folder`, unless they are there.

    sizes: name -> preset; texts: a file with one sentence per line (optionally .xz), None for synthetic ones; count:
    sentences.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "texts.json").exists():
        lines = sentences(count) if texts is None else texts_of_file(texts)[:count]
        paragraphs = ["\n".join(lines[at : at + DOCUMENT]) for at in range(0, len(lines), DOCUMENT)]
        write_text(folder / "corpus.txt", "\n\n".join(paragraphs) + "\n")
        write_json(folder / "texts.json", lines)
    if not (folder / "tokenizer").exists():
        trained = Tokenizer.train([str(folder / "corpus.txt")], kind="wordpiece", vocab_size=vocab_size)
        trained.save(folder / "tokenizer")
    tokenizer = Tokenizer.load(folder / "tokenizer")
    prepare([str(folder / "corpus.txt")], tokenizer, folder / "shards")
    for size, name in sizes.items():
        if not (folder / "models" / size).exists():
            (folder / "models").mkdir(exist_ok=True)
            model = build(preset(name, vocab_size=max(vocab_size, tokenizer.vocab_size)))
            model.tokenizer = tokenizer
            model.save(folder / "models" / size)


def read_texts(folder: Path) -> list[str]:
    """The sentences that were prepared."""
    found: list[str] = json.loads((folder / "texts.json").read_text(encoding="utf-8"))
    return found
