"""Create documents whose label depends on a late passage: 600 words of an encyclopedia, then a passage of one of two
kinds.

Each row, and each passage, is a separate document; train, dev and test rows share none. The corpora are text files (a
blank line between documents, one sentence per line), compressed or not.

    python benchmarks/long_documents.py --filler wikipedia.txt.xz --kind novel=novels.txt.xz \\
        --kind news=reuters.txt.xz --rows 120 60 150 -o rows/
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from maskwright.core.randomness import generator
from maskwright.core.storage import write_text
from maskwright.text.readers.corpus import read_documents

BEFORE, PASSAGE, AFTER = 600, 100, 50  # words
PARTS = ("train", "dev", "test")


def stretches(path: Path, num_words: int) -> Iterator[list[str]]:
    """The first `num_words` words of each document that has so many."""
    for document in read_documents([path]):
        words = " ".join(document.sentences).split()
        if len(words) >= num_words:
            yield words[:num_words]


def shuffled(path: Path, num_words: int, count: int, seed: int) -> list[list[str]]:
    """`count` stretches, drawn without replacement from the first ten times as many."""
    found = list(islice(stretches(path, num_words), 10 * count))
    if len(found) < count:
        raise SystemExit(f"{path} has {len(found)} documents of {num_words} words; {count} are needed.")
    return [found[place] for place in generator(seed, str(path.name)).permutation(len(found))[:count]]


def main() -> None:
    """Write train.tsv, dev.tsv and test.tsv."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--filler", type=Path, required=True)
    parser.add_argument("--kind", action="append", required=True, metavar="LABEL=FILE")
    parser.add_argument("--rows", type=int, nargs=3, default=(120, 60, 150), metavar=("TRAIN", "DEV", "TEST"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    kinds = dict(kind.split("=", 1) for kind in options.kind)
    total = sum(options.rows)
    each = -(-total // len(kinds))
    passages = {label: shuffled(Path(file), PASSAGE, each, options.seed) for label, file in kinds.items()}
    fillers = shuffled(options.filler, BEFORE + AFTER, total, options.seed)
    labels = [label for number in range(each) for label in kinds][:total]
    rows = [
        "\t".join([" ".join([*words[:BEFORE], *passages[label].pop(), *words[BEFORE:]]), label])
        for words, label in zip(fillers, labels, strict=True)
    ]
    options.output.mkdir(parents=True, exist_ok=True)
    for part, start, size in zip(PARTS, np.cumsum([0, *options.rows[:2]]).tolist(), options.rows, strict=True):
        write_text(options.output / f"{part}.tsv", "\n".join(["text\tlabel", *rows[start : start + size], ""]))


if __name__ == "__main__":
    main()
