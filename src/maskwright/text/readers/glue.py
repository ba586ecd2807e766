"""Reads GLUE tasks from their original files, or from plain files with recognized column names.

The original files are tab-separated with quirks: quotes are literal; CoLA has no header and four columns; MRPC starts
with a byte order mark; columns differ between training, dev and test files; test files have an index instead of a
label. Wang et al. 2019, GLUE, arXiv:1804.07461.
"""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path

from ...core import storage
from ...core.errors import ConfigError, InputError, MissingFileError, RowError
from ...core.registry import unknown_name
from ..formats.cells import ROLES, Columns, Rules, number_error
from ..formats.files import PACKINGS
from ..formats.records import Record, header_of, name_cells, read_literal
from .tables import FoundRows, Row, check_rows, read_row

_ENTAILMENT = ("entailment", "not_entailment")
_BINARY = ("0", "1")
_SENTENCES = ("sentence1", "sentence2")
NO_GOLD = "-"  # MNLI's label for examples without annotator agreement


@dataclass(frozen=True)
class GlueTask:
    """File layout of a task.

    texts: column pairs (or single columns), the first one in the header is used; label, ids: column names, likewise;
    labels: all labels, () for a number within `span`; positions: columns (text, label) of a file of `width` columns
    without a header; stems: split -> alternative file names; folders: alternative folder names.
    """

    name: str
    texts: tuple[tuple[str, ...], ...]
    labels: tuple[str, ...]
    label: tuple[str, ...] = ("label",)
    ids: tuple[str, ...] = ("index", "id")
    span: tuple[float, float] | None = None
    positions: tuple[int, int] | None = None
    width: int = 0
    stems: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    folders: tuple[str, ...] = ()


_MNLI = ("contradiction", "entailment", "neutral")
_MNLI_SPLITS: Mapping[str, tuple[str, ...]] = dict.fromkeys(
    ("dev_matched", "dev_mismatched", "test_matched", "test_mismatched"), ()
)
_MRPC_SPLITS = {"train": ("msr_paraphrase_train",), "test": ("msr_paraphrase_test",)}
_AX_SPLITS = {"test": ("diagnostic", "diagnostic-full")}
TASKS = {
    task.name: task
    for task in (
        GlueTask("CoLA", (("sentence",),), _BINARY, positions=(3, 1), width=4),
        GlueTask("SST-2", (("sentence",),), _BINARY),
        GlueTask(
            "MRPC", (("#1 String", "#2 String"), _SENTENCES), _BINARY, ("Quality", "label"), stems=_MRPC_SPLITS
        ),
        GlueTask("STS-B", (_SENTENCES,), (), ("score", "label"), span=(0.0, 5.0)),
        GlueTask("QQP", (("question1", "question2"),), _BINARY, ("is_duplicate", "label")),
        GlueTask("MNLI", (_SENTENCES, ("premise", "hypothesis")), _MNLI, ("gold_label", "label"), stems=_MNLI_SPLITS),
        GlueTask("QNLI", (("question", "sentence"),), _ENTAILMENT),
        GlueTask("RTE", (_SENTENCES,), _ENTAILMENT),
        GlueTask("WNLI", (_SENTENCES,), _BINARY),
        GlueTask(
            "AX", (_SENTENCES, ("Premise", "Hypothesis")), _MNLI, ("Label", "label"), stems=_AX_SPLITS,
            folders=("diagnostic",),
        ),
    )
}  # fmt: skip


@dataclass(frozen=True)
class GlueFile(FoundRows):
    """One file of a task.

    ids: position of each row from 0, or without labels the index from the file, as needed for a submission;
    num_without_gold: rows skipped because annotators did not agree (MNLI).
    """

    ids: list[str] = field(default_factory=list)
    num_without_gold: int = 0


def glue_task(name: str) -> GlueTask:
    """Returns a task by name, ignoring case and hyphens. Raises ConfigError with the closest match."""
    for known, task in TASKS.items():
        if _plain(known) == _plain(name):
            return task
    raise ConfigError(unknown_name("GLUE task", name, TASKS))


def glue_files(folder: Path | str, name: str) -> dict[str, Path]:
    """Returns the files of a task in `folder` by split: "train", "dev", "test", for MNLI also "dev_matched", ...

    The task folder may have any common spelling (STS-B, stsb), or be `folder` itself if its name matches. Files are
    .tsv, or .txt like the original, plain or compressed. Raises MissingFileError if there is no such folder or file.
    """
    task, root = glue_task(name), Path(folder)
    if not root.is_dir():
        raise MissingFileError(f"{root} is not a folder: specify the folder that contains the GLUE task folders.")
    wanted = {_plain(one) for one in (task.name, *task.folders)}
    places = [place for place in (root, *sorted(root.iterdir())) if place.is_dir()]
    places = [place for place in places if _plain(place.resolve().name) in wanted]
    if not places:
        raise MissingFileError(f"{root} has no folder for {task.name}: create {task.name} with its .tsv files.")
    stems: dict[str, tuple[str, ...]] = {"train": (), "dev": (), "test": ()} | dict(task.stems)
    found: dict[str, Path] = {}
    for split, others in stems.items():
        names = [
            f"{stem}{ending}{packing}"
            for stem in (split, *others)
            for ending in (".tsv", ".txt")
            for packing in ("", *PACKINGS)
        ]
        hit = next((places[0] / file for file in names if (places[0] / file).is_file()), None)
        found |= {} if hit is None else {split: hit}
    if not found:
        raise MissingFileError(f"{places[0]} contains no file of {task.name}: expected train.tsv, dev.tsv or test.tsv.")
    return found


def read_glue(path: Path | str, name: str, *, with_labels: bool = True, skip_bad_rows: bool = False) -> GlueFile:
    """Read one file of the GLUE task `name`, in its original columns or the plain ones.

    Args:
        path: File to read.
        name: Task name.
        with_labels: Every row needs a gold label; otherwise labels are ignored, as in the test files.
        skip_bad_rows: Skip invalid rows and list them in `skipped` instead of raising RowErrors.

    Raises:
        RowErrors: all invalid rows (columns, encoding, empty text, unknown label, score out of range).
        InputError: header of another task, or no rows.
        ConfigError: unknown task.
        MissingFileError: no such file.
    """
    task = glue_task(name)
    found, ids, records = _open(path, task, with_labels)
    rules = Rules(with_labels, not task.labels, frozenset(task.labels) or None, span=task.span)
    rows: dict[str, Row] = {}
    faults: list[RowError] = []
    num_without_gold = 0
    for number, record in enumerate(records):
        if found.names.get("label") == "gold_label" and record.named.get("gold_label", "").strip() == NO_GOLD:
            num_without_gold += 1
            continue
        row, bad = read_row(record, found, rules)
        faults += bad
        if row is None:
            continue
        given = record.named[ids].strip() if ids is not None else ""
        key = str(number) if with_labels or not given else given
        if key in rows:  # would be ambiguous in a submission
            faults.append(record.fault(ids, f"duplicate '{key[:30]}', first in line {rows[key].line}"))
        else:
            rows[key] = row
    check_rows(path, list(rows), faults, skip_bad_rows, f"rows of {task.name}")
    return GlueFile(list(rows.values()), faults, list(rows), num_without_gold)


def _open(path: Path | str, task: GlueTask, with_labels: bool) -> tuple[Columns, str | None, Iterator[Record]]:
    """Returns the columns of a file, the column of its index, and its rows by name."""
    records = read_literal(path)  # MRPC's .txt is also tab-separated
    first = list(islice(records, 1))
    header = header_of(path, chain(first, records))
    texts = next((names for names in task.texts if all(name in header for name in names)), None)
    if texts is None and task.positions is not None and len(header) == task.width:
        header = ["source", "label", "mark", "sentence"]
        roles = {"text": "sentence"} | ({"label": "label"} if with_labels else {})
        return Columns(roles), None, name_cells(chain(first, records), header)
    if texts is None:
        listed = ", ".join(f"'{cell[:30]}'" for cell in header[:8]) + (", ..." if len(header) > 8 else "")
        raise InputError(
            f"{path} does not have the columns of {task.name}: its first row is {listed}, but "
            f"{' and '.join(task.texts[0])} are required."
        )
    label = next((name for name in task.label if name in header), None)
    if with_labels and label is None:
        raise InputError(f"{path} has no labels (column {task.label[0]}): without labels, rows can only be predicted.")
    ids = next((name for name in task.ids if name in header), None)
    roles = dict(zip(ROLES, texts, strict=False)) | ({"label": label} if with_labels and label is not None else {})
    return Columns(roles), ids, name_cells(records, header)


def _plain(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter.isalnum())


# -- Submission files of the GLUE leaderboard: one tab-separated file per task with columns index and prediction ------
#
# The leaderboard requires all eleven in one zip archive without other files.


@dataclass(frozen=True)
class Part:
    """One submission file. task, split: the test set; num_rows: number of rows in the test set."""

    file: str
    task: str
    num_rows: int
    split: str = "test"


GLUE_PARTS = {
    "CoLA": Part("CoLA.tsv", "CoLA", 1063),
    "SST-2": Part("SST-2.tsv", "SST-2", 1821),
    "MRPC": Part("MRPC.tsv", "MRPC", 1725),
    "STS-B": Part("STS-B.tsv", "STS-B", 1379),
    "QQP": Part("QQP.tsv", "QQP", 390_965),
    "MNLI-m": Part("MNLI-m.tsv", "MNLI", 9796, "test_matched"),
    "MNLI-mm": Part("MNLI-mm.tsv", "MNLI", 9847, "test_mismatched"),
    "QNLI": Part("QNLI.tsv", "QNLI", 5463),
    "RTE": Part("RTE.tsv", "RTE", 3000),
    "WNLI": Part("WNLI.tsv", "WNLI", 146),
    "AX": Part("AX.tsv", "AX", 1104),
}
ARCHIVE = "submission.zip"
_DATE = (1980, 1, 1, 0, 0, 0)  # the same predictions give the same bytes


@dataclass(frozen=True)
class Submission:
    """The written files and their archive.

    missing: required parts without predictions; short: part -> (number of predictions, rows of the test set) where they
    differ. The leaderboard rejects archives with either.
    """

    files: list[Path]
    archive: Path
    missing: list[str]
    short: dict[str, tuple[int, int]]

    @property
    def is_complete(self) -> bool:
        """Whether the leaderboard accepts it."""
        return not self.missing and not self.short


def submission_table(part: str, ids: Sequence[str], answers: Sequence[str | float]) -> str:
    """The text of one file.

    part: a key of GLUE_PARTS ("MNLI-m"); ids: index of each test row, from read_glue; answers: predicted labels, or
    numbers for STS-B, which are clipped to 0..5. Raises InputError if there are not as many predictions as rows, for
    duplicate indices, unknown labels, and numbers that are not finite.
    """
    if part not in GLUE_PARTS:
        raise InputError(unknown_name("GLUE part", part, GLUE_PARTS))
    if len(ids) != len(answers):
        raise InputError(f"{part} has {len(ids):,} rows and {len(answers):,} predictions: pass one prediction per row.")
    if len(set(ids)) != len(ids):
        raise InputError(f"{part} has duplicate indices: each row needs a unique index.")
    task = glue_task(GLUE_PARTS[part].task)
    low, high = task.span or (-math.inf, math.inf)
    lines = ["index\tprediction"]
    for number, answer in zip(ids, answers, strict=True):
        if not task.labels:
            value = math.nan if isinstance(answer, str) and number_error(answer) else float(answer)
            if not math.isfinite(value):
                raise InputError(f"{part}, row {number}: '{answer}' is not a finite number.")
            lines.append(f"{number}\t{min(max(value, low), high):.3f}")
        elif answer in task.labels:
            lines.append(f"{number}\t{answer}")
        else:
            raise InputError(f"{part}, row {number}: {unknown_name('label', str(answer), task.labels)}")
    return "\n".join(lines) + "\n"


def write_submission(
    folder: Path | str, predictions: Mapping[str, tuple[Sequence[str], Sequence[str | float]]]
) -> Submission:
    """Writes the file of each part and the archive of all to `folder`.

    predictions: part -> (ids, answers), see `submission_table`. All parts are checked before anything is written.
    Raises InputError.
    """
    if not predictions:
        raise InputError("There is nothing to submit: pass predictions for at least one GLUE task.")
    tables = {part: submission_table(part, *predictions[part]) for part in predictions}
    ordered = [part for part in GLUE_PARTS if part in tables]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for part in ordered:
            entry = zipfile.ZipInfo(GLUE_PARTS[part].file, _DATE)
            archive.writestr(entry, tables[part], zipfile.ZIP_DEFLATED)
    files = [Path(folder) / GLUE_PARTS[part].file for part in ordered]
    for part, path in zip(ordered, files, strict=True):
        storage.write_text(path, tables[part])
    storage.write_bytes(Path(folder) / ARCHIVE, packed.getvalue())
    sizes = {part: (len(predictions[part][0]), GLUE_PARTS[part].num_rows) for part in ordered}
    short = {part: counts for part, counts in sizes.items() if counts[0] != counts[1]}
    return Submission(files, Path(folder) / ARCHIVE, [part for part in GLUE_PARTS if part not in tables], short)
