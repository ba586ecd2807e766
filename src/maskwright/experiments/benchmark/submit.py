"""Leaderboard files of GLUE: predictions of the best seed on dev for the test rows of each part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ...core.errors import MissingFileError
from ...core.progress import note, warn
from ...tasks.evaluation.submission import GLUE_PARTS, write_submission
from ...text.readers.glue import glue_files, read_glue
from .config import BenchmarkConfig
from .opening import open_model
from .results import PartResult, Results

FOLDER = "submission"
_ANSWERED_BY = {"AX": "MNLI"}  # the MNLI model predicts the diagnostic rows


def submit(results: Results, run: Path) -> dict[str, Any] | None:
    """Write the files of all parts whose test rows are in the data folder; None if there are none.

    Returns the archive, the files, the missing parts, and the parts with a wrong number of rows.
    """
    answers = {}
    for name, part, path in _test_files(results):
        note(f"predicting the test rows of {name}")
        found = read_glue(path, GLUE_PARTS[name].task, with_labels=False)
        answers[name] = (found.ids, _answers(part, found.rows, results.config))
    if not answers:
        warn("There are no test files of the trained parts: no leaderboard files are written.")
        return None
    done = write_submission(run / FOLDER, answers)
    if not done.is_complete:
        short = [f"{name} ({found:,} of {needed:,} rows)" for name, (found, needed) in done.short.items()]
        warn(f"The leaderboard will reject the archive; missing: {', '.join([*done.missing, *short])}.")
    return {
        "archive": str(done.archive),
        "files": [str(path) for path in done.files],
        "missing": done.missing,
        "short": {name: list(counts) for name, counts in done.short.items()},
    }


def _test_files(results: Results) -> Iterator[tuple[str, PartResult, Path]]:
    by_name = {part.name: part for part in results.parts}
    for name, wanted in GLUE_PARTS.items():
        part = by_name.get(_ANSWERED_BY.get(name, wanted.task))
        if part is None:
            continue
        try:
            files = glue_files(results.config.data, wanted.task)
        except MissingFileError:
            continue  # listed among the missing parts
        if wanted.split in files:
            yield name, part, files[wanted.split]


def _answers(part: PartResult, rows: Sequence[Any], config: BenchmarkConfig) -> list[str | float]:
    best = part.models[part.seeds.index(part.best_seed)]
    predictor = open_model(Path(best), config)
    return [answer.get("label", answer["score"]) for _, answer in predictor.stream(rows)]
