"""Converts a benchmark's files to the rows of its runs: JSON lines in the run folder, written once.

So every seed and setting sees the same rows, rows are sampled once, and the training data can be inspected. CoNLL's
tags are converted to BIO (the original files start entities with I-); the entities are unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...core import storage
from ...core.errors import InputError, RowError, RowErrors
from ...core.plural import plural
from ...core.progress import note, warn
from ...core.randomness import generator
from ...tasks.spec import spec_of
from ...tasks.tagging.schemes import find_notation, repair
from ...text.readers.choices import read_choices
from ...text.readers.glue import read_glue
from ...text.readers.squad import read_questions
from ...text.readers.tagged import read_tagged
from .config import BenchmarkConfig
from .parts import Part
from .sources import Source

FACTS = "facts.json"
Record = dict[str, Any]


@dataclass(frozen=True)
class Split:
    """One file. skipped: number of bad rows; without_gold: number of rows without a gold label in MNLI."""

    records: list[Record]
    file: str
    skipped: int
    without_gold: int = 0


@dataclass(frozen=True)
class Prepared:
    """A part that is ready for training. files: split -> its rows; facts: their statistics, for the report."""

    part: Part
    files: Mapping[str, Path]
    facts: dict[str, Any]

    def rows(self, split: str) -> int:
        """Number of rows of a split."""
        return int(self.facts["splits"][split]["rows"])


def read_source(source: Source, config: BenchmarkConfig) -> dict[str, Split]:
    """Read the training and evaluation files of a part. Raises RowErrors with the bad rows of all of them."""
    splits = dict.fromkeys(["train", *(number.split for number in source.part.numbers)])
    found: dict[str, Split] = {}
    bad: list[RowError] = []
    for split in splits:
        if split not in source.files:
            continue
        try:
            found[split] = _read(source.part, source.files[split], config.skip_bad_rows)
        except RowErrors as error:
            bad += error.rows
    if bad:
        raise RowErrors(bad)
    return found


def read_all(sources: Iterable[Source], config: BenchmarkConfig) -> dict[str, dict[str, Split]]:
    """The rows of all parts by name. Raises RowErrors with the bad rows of every file."""
    found: dict[str, dict[str, Split]] = {}
    bad: list[RowError] = []
    for source in sources:
        try:
            found[source.part.name] = read_source(source, config)
        except RowErrors as error:
            bad += error.rows
    if bad:
        raise RowErrors(bad)
    return found


def capped(records: list[Record], config: BenchmarkConfig, part: Part) -> list[Record]:
    """A random sample of at most `max_train_rows` rows, in the order of the file."""
    if not config.max_train_rows or len(records) <= config.max_train_rows:
        return records
    order = generator(config.seed, f"rows of {part.name}").permutation(len(records))
    return [records[place] for place in sorted(order[: config.max_train_rows].tolist())]


def prepare(run: Path, sources: Iterable[Source], config: BenchmarkConfig) -> list[Prepared]:
    """Write the rows of each part to `run/data` unless they exist. Nothing is written before all files are read."""
    sources = list(sources)
    missing = [source for source in sources if not (run / "data" / source.part.folder).is_dir()]
    for name, splits in read_all(missing, config).items():
        part = next(source.part for source in missing if source.part.name == name)
        _write(run / "data" / part.folder, part, splits, config)
    found = []
    for source in sources:
        folder = run / "data" / source.part.folder
        storage.verify_folder(folder, fix="Remove the folder: its rows are read again.")
        facts = storage.read_json(folder / FACTS)
        files = {split: folder / f"{split}.jsonl" for split in facts["splits"]}
        found.append(Prepared(source.part, files, facts))
    return found


def _write(folder: Path, part: Part, splits: Mapping[str, Split], config: BenchmarkConfig) -> None:
    facts: dict[str, Any] = {
        "part": part.name,
        "folder": str(folder),
        "cap": config.max_train_rows or None,
        "splits": {},
    }
    with storage.new_folder(folder) as new:
        for name, split in splits.items():
            records = capped(split.records, config, part) if name == "train" else split.records
            lines = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
            storage.write_text(new / f"{name}.jsonl", lines)
            facts["splits"][name] = {
                "file": split.file,
                "rows": len(records),
                "rows_in_file": len(split.records),
                "skipped": split.skipped,
                "without_gold": split.without_gold,
            }
            if split.skipped:
                warn(f"{part.name}: {plural(split.skipped, 'bad row')} of {split.file} skipped.")
            if split.without_gold:
                note(f"{part.name}: {split.without_gold:,} rows of {split.file} have no gold label and are skipped.")
        storage.write_json(new / FACTS, facts)


# -- one file as records that `finetune` reads ---------------------------------------------------------------------


def _read(part: Part, path: Path, skip_bad_rows: bool) -> Split:
    if part.layout is None:
        return _glue(part, path, skip_bad_rows)
    return _SPLITS[spec_of(part.task).reads[0]](part, path, skip_bad_rows)


def _glue(part: Part, path: Path, skip_bad_rows: bool) -> Split:
    found = read_glue(path, part.name, skip_bad_rows=skip_bad_rows)
    has_pair = any(row.text_pair is not None for row in found.rows)
    records = [
        {"text": row.text, **({"text_pair": row.text_pair} if has_pair else {}), "label": row.label}
        for row in found.rows
    ]
    return Split(records, str(path), _num_rows(found.skipped), found.num_without_gold)


def _questions(part: Part, path: Path, skip_bad_rows: bool) -> Split:
    found = read_questions(path, skip_bad_rows=skip_bad_rows)
    records = [
        {
            "id": row.id,
            "question": row.question,
            "context": row.context,
            "answers": [{"text": gold.text, "answer_start": gold.start} for gold in row.answers or ()],
        }
        for row in found.rows
    ]
    return Split(records, str(path), found.num_skipped)


def _tagged(part: Part, path: Path, skip_bad_rows: bool) -> Split:
    found = read_tagged(path, skip_bad_rows=skip_bad_rows)
    notation = find_notation(tag for row in found.rows for tag in row.tags or ())
    if notation is None:
        raise InputError(f"{path} has no entity tags (B-PER, I-PER, O) in its last column: is it a file of CoNLL-2003?")
    scheme = "BIO" if notation.scheme in ("IO", "IOB1") else notation.scheme
    records = [
        {"tokens": list(row.words), "tags": repair([notation.read(tag) or tag for tag in row.tags or ()], scheme)[0]}
        for row in found.rows
    ]
    return Split(records, str(path), found.num_skipped)


def _choices(part: Part, path: Path, skip_bad_rows: bool) -> Split:
    found = read_choices(path, skip_bad_rows=skip_bad_rows)
    records = [
        {"context": row.context, "question": row.question, "choices": list(row.choices), "label": row.label}
        for row in found.rows
    ]
    return Split(records, str(path), found.num_skipped)


def _num_rows(skipped: Iterable[RowError]) -> int:
    return len({fault.line for fault in skipped})


_SPLITS = {"questions": _questions, "tagged": _tagged, "choices": _choices}  # by reader
