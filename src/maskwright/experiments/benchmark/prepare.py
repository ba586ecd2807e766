"""Converts a benchmark's files to the rows of its runs: JSON lines in the run folder, written once.

So every seed and setting sees the same rows, rows are sampled once, and the training data can be inspected. CoNLL's
tags are converted to BIO (the original files start entities with I-); the entities are unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...core import storage
from ...core.errors import ConfigError, InputError, MissingFileError, RowError, RowErrors
from ...core.progress import note, warn
from ...core.randomness import generator
from ...core.registry import unknown_name
from ...core.util import plural
from ...tasks.specs import spec_of
from ...tasks.tagging.schemes import find_notation, repair
from ...text.formats.files import PACKINGS
from ...text.readers.choices import read_choices
from ...text.readers.glue import glue_files, read_glue
from ...text.readers.squad import read_questions
from ...text.readers.tagged import read_tagged
from .config import BenchmarkConfig

# -- The parts of each benchmark: task, scores, and file names -------------------------------------------------------


@dataclass(frozen=True)
class Number:
    """One score of a benchmark. name: as in the published tables; split: the evaluated file; metrics: the official
    metrics, the main one first.
    """

    name: str
    split: str
    metrics: tuple[str, ...]


@dataclass(frozen=True)
class Layout:
    """File locations. folders: names of the part's folder, only letters and digits; own: split -> file names accepted
    in any folder; plain: those accepted only in the part's folder, or also in the top folder (`anywhere`).
    """

    folders: tuple[str, ...]
    own: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    plain: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    anywhere: bool = False


@dataclass(frozen=True)
class Part:
    """One fine-tuning of a benchmark. task: of `finetune`; published: the name of its published tables; layout: None
    for GLUE, whose files `text.readers.glue` finds; is_requested: run only if named.
    """

    name: str
    task: str
    numbers: tuple[Number, ...]
    max_length: int = 128
    published: str | None = None
    layout: Layout | None = None
    is_requested: bool = False

    @property
    def metric(self) -> str:
        """The dev metric that chooses the best epoch, seed and setting."""
        return self.numbers[0].metrics[0]

    @property
    def folder(self) -> str:
        """The folder name: cola, squad-1.1."""
        return self.name.lower().replace(" ", "-")


def _glue_part(name: str, *metrics: str, task: str = "classification", is_requested: bool = False) -> Part:
    return Part(name, task, (Number(name, "dev", metrics),), published="glue", is_requested=is_requested)


_MNLI = (Number("MNLI-m", "dev", ("accuracy",)), Number("MNLI-mm", "dev_mismatched", ("accuracy",)))
_JSON = {"train": ("train.json", "train.jsonl"), "dev": ("dev.json", "dev.jsonl")}
_CHOICES = {"train": ("train.csv", "train.jsonl"), "dev": ("val.csv", "dev.csv", "val.jsonl", "dev.jsonl")}

PARTS: dict[str, tuple[Part, ...]] = {
    "glue": (
        Part("MNLI", "classification", _MNLI, published="glue"),
        _glue_part("QQP", "f1", "accuracy"),
        _glue_part("QNLI", "accuracy"),
        _glue_part("SST-2", "accuracy"),
        _glue_part("CoLA", "matthews"),
        _glue_part("STS-B", "spearman", "pearson", task="regression"),
        _glue_part("MRPC", "f1", "accuracy"),
        _glue_part("RTE", "accuracy"),
        _glue_part("WNLI", "accuracy", is_requested=True),
    ),
    "squad": (
        Part(
            "SQuAD 1.1",
            "qa",
            (Number("SQuAD 1.1", "dev", ("f1", "exact_match")),),
            384,
            "squad1",
            Layout(
                ("squad", "squad1", "squad11", "squadv1", "squadv11"),
                {"train": ("train-v1.1.json",), "dev": ("dev-v1.1.json",)},
                _JSON,
            ),
        ),
        Part(
            "SQuAD 2.0",
            "qa",
            (Number("SQuAD 2.0", "dev", ("f1", "exact_match", "has_answer_f1", "no_answer_f1")),),
            384,
            "squad2",
            Layout(
                ("squad2", "squad20", "squadv2", "squadv20"),
                {"train": ("train-v2.0.json",), "dev": ("dev-v2.0.json",)},
                _JSON,
            ),
        ),
    ),
    "conll": (
        Part(
            "CoNLL-2003",
            "tagging",
            (
                Number("Dev F1", "dev", ("entity_f1", "entity_precision", "entity_recall")),
                Number("Test F1", "test", ("entity_f1", "entity_precision", "entity_recall")),
            ),
            128,
            "conll2003",
            Layout(
                ("conll2003", "conll03", "conll", "ner"),
                {"train": ("eng.train",), "dev": ("eng.testa",), "test": ("eng.testb",)},
                {
                    "train": ("train.conll", "train.txt", "train.jsonl"),
                    "dev": ("dev.conll", "valid.conll", "dev.txt", "valid.txt", "dev.jsonl"),
                    "test": ("test.conll", "test.txt", "test.jsonl"),
                },
                anywhere=True,
            ),
        ),
    ),
    "swag": (
        Part(
            "SWAG",
            "choice",
            (Number("SWAG", "dev", ("accuracy",)),),
            128,
            "swag",
            Layout(("swag",), {}, _CHOICES, anywhere=True),
        ),
        Part("CODAH", "choice", (Number("CODAH", "dev", ("accuracy",)),), 128, None, Layout(("codah",), {}, _CHOICES)),
    ),
}


def chosen_parts(benchmark: str, names: tuple[str, ...]) -> list[Part]:
    """The parts called `names`, ignoring case, hyphens and dots; without names, all except those that must be named.

    Raises ConfigError with the nearest name for an unknown one.
    """
    parts = PARTS[benchmark]
    if not names:
        return [part for part in parts if not part.is_requested]
    wanted = set()
    for name in names:
        found = next((part.name for part in parts if plain(name) in _known_as(part)), None)
        if found is None:
            raise ConfigError(unknown_name(f"task of {benchmark}", name, [part.name for part in parts]))
        wanted.add(found)
    return [part for part in parts if part.name in wanted]


def plain(name: str) -> str:
    """Letters and digits of a name, lowercase."""
    return "".join(letter for letter in name.casefold() if letter.isalnum())


def _known_as(part: Part) -> set[str]:
    return {plain(part.name), *(part.layout.folders if part.layout is not None else ())}


# -- Finds the parts of a benchmark in a folder: original files or plain ones, compressed or not ---------------------


_FOLDERS = {name for parts in PARTS.values() for part in parts if part.layout for name in part.layout.folders}


@dataclass(frozen=True)
class Source:
    """The files of a part: split -> path, at least "train" and "dev"."""

    part: Part
    files: Mapping[str, Path]


def find_sources(folder: Path, parts: Iterable[Part]) -> tuple[list[Source], dict[str, str]]:
    """The parts with training and dev files, and the reason for each score that cannot be measured.

    Raises MissingFileError when `folder` is not a folder, or does not contain any part.
    """
    if not folder.is_dir():
        raise MissingFileError(f"{folder} is not a folder: pass the one that contains the benchmark's files.")
    found: list[Source] = []
    missing: dict[str, str] = {}
    for part in parts:
        files, reason = _files(folder, part)
        lacks = [split for split in ("train", "dev") if split not in files]
        if lacks:
            noun = "files are" if len(lacks) > 1 else "file is"
            reason = reason or f"its {' and '.join(lacks)} {noun} missing"
            missing |= {number.name: reason for number in part.numbers}
            continue
        found.append(Source(part, files))
        for number in part.numbers:
            if number.split not in files:
                missing[number.name] = f"its {number.split} file is missing"
    if not found:
        told = "; ".join(f"{name}: {reason}" for name, reason in missing.items())
        raise MissingFileError(
            f"{folder} does not contain any part of the benchmark with train and dev examples ({told})."
        )
    return found, missing


def _files(folder: Path, part: Part) -> tuple[dict[str, Path], str]:
    """The files by split, and the reason if there are none."""
    if part.layout is not None:
        return _laid_out(folder, part.layout), ""
    try:
        files = glue_files(folder, part.name)
    except MissingFileError as error:
        return {}, str(error).removeprefix(f"{folder} ").rstrip(".")
    if "dev_matched" in files:
        files["dev"] = files["dev_matched"]
    return files, ""


def _laid_out(folder: Path, layout: Layout) -> dict[str, Path]:
    top = plain(folder.resolve().name)
    is_own = top in layout.folders or (layout.anywhere and top not in _FOLDERS)
    named = [place for place in sorted(folder.iterdir()) if place.is_dir() and plain(place.name) in layout.folders]
    for place in named + [folder] * is_own:
        files = _in_folder(place, layout.own) or _in_folder(place, layout.plain)
        if files:
            return files
    return _in_folder(folder, layout.own)


def _in_folder(folder: Path, names: Mapping[str, tuple[str, ...]]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for split, files in names.items():
        paths = [folder / f"{file}{packing}" for file in files for packing in ("", *PACKINGS)]
        hit = next((path for path in paths if path.is_file()), None)
        found |= {} if hit is None else {split: hit}
    return found


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
