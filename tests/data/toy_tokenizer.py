"""A tokenizer small enough to check by hand: one id for each letter or digit, none for other ASCII, 1 for the rest."""

from __future__ import annotations

from pathlib import Path

import numpy as np


class ToyTokenizer:
    """Ids: 2 + code for ASCII letters and digits, 1 (unknown) beyond ASCII, nothing for space and punctuation."""

    unk_id = 1

    def __init__(self, vocab_size: int = 130, name: str = "toy") -> None:
        self.vocab_size, self.name = vocab_size, name

    def encode_plain(self, texts: list[str]) -> list[list[int]]:
        return [self.encode(text) for text in texts]

    def encode(self, text: str) -> list[int]:
        return [2 + ord(c) if c.isascii() else 1 for c in text if not c.isascii() or c.isalnum()]

    def files(self) -> dict[str, bytes]:
        return {"tokenizer.json": self.name.encode()}


def write_corpus(folder: Path, documents: int, seed: int = 0, name: str = "corpus.txt") -> Path:
    """A corpus of drawn documents, a third of which repeat; some sentences give no token."""
    rng = np.random.default_rng(seed)
    texts: list[str] = []
    for number in range(documents):
        if texts and rng.random() < 0.33:
            texts.append(texts[rng.integers(len(texts))])
            continue
        sizes = rng.integers(0, 40, size=rng.integers(1, 6))
        texts.append("\n".join(f"s{number} " + "é" * (size % 3) + "x" * size if size else "..." for size in sizes))
    path = folder / name
    path.write_text("\n\n".join(texts) + "\n", encoding="utf-8")
    return path
