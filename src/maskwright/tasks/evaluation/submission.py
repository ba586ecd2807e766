"""Submission files of the GLUE leaderboard: one tab-separated file per task with columns `index` and `prediction`.

The leaderboard requires all eleven in one zip archive without other files.
"""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...core import storage
from ...core.errors import InputError
from ...core.registry import unknown_name
from ...text.formats.cells import number_error
from ...text.readers.glue import glue_task


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
