"""Reads the Stanford Sentiment Treebank: one bracketed tree per line, with a label from 0 to 4 at every node.

    (3 (2 (2 The) (2 film)) (4 (4 shines) (2 .)))

0 is very negative, 2 neutral, 4 very positive. A tree yields its sentence and all its phrases, with five classes or two
(0 and 1 are negative, 3 and 4 positive, neutral excluded). Socher et al. 2013.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from ...core.errors import ConfigError, RowError
from ...core.registry import unknown_name
from ..formats.files import file_format, read_lines
from .tables import FoundRows, Reader, Row, Table, check_rows

NEUTRAL = 2
CHOICES = {"text": ("sentence", "phrase"), "label": ("five", "two")}  # --columns values for trees, defaults first
_TREE_START = re.compile(r"\s*\([0-4]\s+(\()?")
_LOOKED_AT = 8
_PIECES = re.compile(r"[()]|[^\s()]+")
_ESCAPES = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}


@dataclass(frozen=True, slots=True)
class SentimentTree:
    """One sentence: its words, and (label, first word, end word) for each node, the root last."""

    words: tuple[str, ...]
    nodes: tuple[tuple[int, int, int], ...]
    line: int
    file: str

    @property
    def label(self) -> int:
        """Label of the whole sentence, 0 to 4."""
        return self.nodes[-1][0]

    def phrases(self) -> Iterator[tuple[str, int]]:
        """Yields (text, label) of every node, children before parents, the sentence last."""
        for label, start, end in self.nodes:
            yield " ".join(self.words[start:end]), label


def read_sentiment_trees(path: Path | str, *, skip_bad_rows: bool = False) -> FoundRows:
    """Read a file of trees, plain or compressed; blank lines are ignored.

    Escaped brackets and slashes in words (-LRB-, \\/) are unescaped. Raises RowErrors (all invalid lines, with the
    reason), InputError (no trees), MissingFileError.
    """
    trees, faults = [], []
    for line in read_lines(path):
        if line.fault is None and not line.text.strip():
            continue
        try:
            if line.fault is not None:
                raise _TreeError(line.fault)
            words, nodes = _parse(line.text)
        except _TreeError as error:
            faults.append(RowError(str(path), line.number, None, str(error)))
        else:
            trees.append(SentimentTree(words, nodes, line.number, str(path)))
    check_rows(path, trees, faults, skip_bad_rows, "trees")
    return FoundRows(trees, faults)


def rows_of(trees: Iterable[SentimentTree], *, phrases: bool = False, binary: bool = False) -> list[Row]:
    """Returns one row per sentence, labeled "0" to "4"; binary: "0" and "1", without neutral ones.

    phrases: one row per distinct phrase of all trees (including sentences), at its first occurrence; a phrase with
    several labels yields a row for each.
    """
    rows = []
    seen: set[tuple[str, int]] = set()
    for tree in trees:
        found = dict.fromkeys(tree.phrases()) if phrases else [(" ".join(tree.words), tree.label)]
        new = [phrase for phrase in found if not phrases or phrase not in seen]
        seen.update(new)
        for text, label in new:
            if not (binary and label == NEUTRAL):
                rows.append(Row(text, None, str(int(label > NEUTRAL)) if binary else str(label), tree.line, tree.file))
    return rows


def is_treebank(path: Path | str) -> bool:
    """Whether a file contains trees: the first line starts like one, and one of the first lines has nested nodes."""
    if file_format(path, default="other") != "txt" or not Path(path).is_file():
        return False
    lines = (line.text for line in read_lines(path) if line.fault or line.text.strip())
    found = [_TREE_START.match(text) for text in islice(lines, _LOOKED_AT)]
    return bool(found) and found[0] is not None and any(match and match[1] for match in found)


def read_treebank(
    path: Path | str,
    *,
    columns: Mapping[str, str] | None = None,
    labels: Collection[str] | None = None,
    skip_bad_rows: bool = False,
) -> Table:
    """Read the trees of a file as labeled rows.

    columns: {"text": "sentence" or "phrase", "label": "five" or "two"}, default: the first of each; labels: allowed
    labels (None: any); if they are "0" and "1", "two" is used. Raises as `read_sentiment_trees`, ConfigError for other
    columns, and RowErrors for labels that are not allowed.
    """
    chosen = {role: names[0] for role, names in CHOICES.items()}
    if labels is not None and set(labels) == {"0", "1"}:
        chosen["label"] = "two"
    chosen |= columns or {}
    for role, name in chosen.items():
        if name not in CHOICES.get(role, ()):
            known = CHOICES.get(role, tuple(CHOICES))
            raise ConfigError(f"{path} contains trees. {unknown_name(f'{role} of trees', name, known)}")
    bank = read_sentiment_trees(path, skip_bad_rows=skip_bad_rows)
    rows = rows_of(bank.rows, phrases=chosen["text"] == "phrase", binary=chosen["label"] == "two")
    faults = [
        RowError(row.file, row.line, "label", unknown_name("label", str(row.label), sorted(labels)))
        for row in rows
        if labels is not None and row.label not in labels
    ]
    good = [row for row in rows if labels is None or row.label in labels]
    check_rows(path, good, faults, skip_bad_rows, "non-neutral tree")
    return Table(good, [*bank.skipped, *faults], {"text": chosen["text"], "label": chosen["label"]})


# -- parsing -----------------------------------------------------------------------------------------------------


class _TreeError(Exception):
    """A line is not a valid tree."""


def _parse(text: str) -> tuple[tuple[str, ...], tuple[tuple[int, int, int], ...]]:
    """Returns words and nodes of one tree. Not recursive: a tree may be as deep as its line is long."""
    words: list[str] = []
    nodes: list[tuple[int, int, int]] = []
    is_open: list[tuple[int, int, int]] = []  # label, first word, nodes closed before it
    pieces = _PIECES.finditer(text)
    for piece in pieces:
        token, place = piece[0], piece.start() + 1
        if nodes and not is_open:
            raise _TreeError(f"text after the end of the tree at character {place}")
        if token == "(":
            if is_open and is_open[-1][1] < len(words) and len(nodes) == is_open[-1][2]:
                raise _TreeError(f"a node at character {place} has a word and a node below it")
            is_open.append((_label(next(pieces, None), place), len(words), len(nodes)))
        elif not is_open:
            raise _TreeError("the line does not begin with a bracket")
        elif token == ")":
            label, start, _ = is_open.pop()
            if start == len(words):
                raise _TreeError(f"the node that ends at character {place} has no word")
            nodes.append((label, start, len(words)))
        else:
            if is_open[-1][1] < len(words):
                raise _TreeError(f"'{token[:30]}' at character {place} is next to another word or node")
            words.append(_ESCAPES.get(token, token.replace("\\/", "/").replace("\\*", "*")))
    if is_open:
        raise _TreeError(f"{len(is_open)} brackets are not closed")
    return tuple(words), tuple(nodes)


def _label(piece: re.Match[str] | None, place: int) -> int:
    if piece is None or piece[0] not in ("0", "1", "2", "3", "4"):
        raise _TreeError(f"the node at character {place} has no label from 0 to 4")
    return int(piece[0])


READER = Reader(
    "trees",
    "bracketed trees",
    "trees in brackets, one per line, with a class at each node: .txt",
    "test.txt",
    recognizes=lambda path, columns: is_treebank(path),
    read=lambda path, columns, skip_bad_rows, labeled: read_treebank(
        path, columns=columns, skip_bad_rows=skip_bad_rows
    ),
    is_text=True,
    read_classes=lambda path, columns, labels, skip_bad_rows: read_treebank(
        path, columns=columns, labels=labels, skip_bad_rows=skip_bad_rows
    ),
)
