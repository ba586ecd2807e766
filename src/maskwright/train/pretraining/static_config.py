"""Settings of static word embeddings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from ...core.config import check, option
from ..settings import SEED, SKIP_BAD_ROWS

MOST_SIZE, MOST_WINDOW = 10_000, 1_000


@dataclass(frozen=True)
class StaticConfig:
    """Settings of static word embeddings.

    corpus: text files, folders or globs; output: the model folder; method: "skip-gram" predicts the neighbors of a
    word, "cbow" the word from them; size: number of dimensions; window: maximum number of words on either side;
    min_count: rarer words are unknown; vocab_size: maximum vocabulary size, special tokens included; epochs: number of
    training epochs. Training uses one thread, so it is deterministic. Raises ConfigError for values out of range.
    """

    COMMAND: ClassVar[str] = "vectors"

    corpus: tuple[str, ...] = option(help="Text files, folders or glob patterns.", is_argument=True)
    output: Path = option(help="Output model folder.", short="-o")
    method: Literal["skip-gram", "cbow"] = option("skip-gram", "Training objective; cbow is continuous bag of words.")
    size: int = option(100, "Embedding dimensions.", minimum=1)
    window: int = option(5, "Maximum context words on each side.", minimum=1)
    min_count: int = option(2, "Minimum word frequency.", minimum=1)
    vocab_size: int = option(30_000, "Maximum vocabulary size.", minimum=16)
    epochs: int = option(5, "Number of training epochs.", minimum=1)
    lowercase: bool = option(True, "Ignore case and accents.")
    seed: int = option(0, SEED)
    skip_bad_rows: bool = option(False, SKIP_BAD_ROWS)

    def __post_init__(self) -> None:
        check(bool(self.corpus), "The corpus is empty: pass at least one text file, folder or glob.")
        check(self.method in ("skip-gram", "cbow"), f"method is '{self.method}'; it must be skip-gram or cbow.")
        for name in ("size", "window", "min_count", "epochs"):
            check(getattr(self, name) >= 1, f"{name} is {getattr(self, name)}; it must be at least 1.")
        for name, most in (("size", MOST_SIZE), ("window", MOST_WINDOW)):
            check(getattr(self, name) <= most, f"{name} is {getattr(self, name)}; it must be at most {most:,}.")
        check(0 <= self.seed < 2**32, f"seed is {self.seed}; it must be from 0 to {2**32 - 1}.")
