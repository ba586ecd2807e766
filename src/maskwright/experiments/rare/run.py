"""Compares methods for class imbalance: each method with each seed, scored on the same test rows.

Finished parts (one method, one seed) are kept in parts/, so rerunning the same command resumes.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from ...core import storage
from ...core.errors import InputError, RunError
from ...core.plural import plural
from ...core.progress import note, warn
from ...hub.folders import load_model
from ...models.device import resolve_device, resolve_precision
from ...tasks.evaluation.rare_parts import RARE, MinorityClassSampler
from ...tasks.evaluation.rare_scores import (
    METRICS,
    MethodScores,
    SeedPredictions,
    draw_counts,
    mean_curve,
    method_scores,
)
from ...tasks.evaluation.thresholds import row_key
from ...text.readers.tables import read_table
from ...train.run import RunFolder, open_run_of
from .config import RareLabConfig
from .methods import METHODS, MethodPredictions, MethodRunner
from .report import ComparisonData, errors_by_length, mean_errors, write_rare_lab_report


@dataclass(frozen=True)
class RareLabResult:
    """Paths and results: for each method {"method", "title", metric: {"mean", "low", "high",
    "deviation"}, "minus_plain": {metric: {"mean", "low", "high", "beyond_noise"}}}; parts: rows of train, dev, test.
    """

    output: Path
    rows: list[dict[str, Any]]
    parts: dict[str, dict[str, int]]
    already_finished: bool = False

    @property
    def report(self) -> Path:
        """The HTML report."""
        return self.output / "report.html"


def rare_lab(config: RareLabConfig, *, restart: bool = False) -> RareLabResult:
    """Run `config`, or resume it; a finished run is returned unchanged.

    Raises InputError for an unknown class or an impossible rate, RunError when the folder contains another run or the
    rows have changed, RowErrors for bad rows, ModelFolderError for an unreadable model.
    """
    device = resolve_device(config.device)
    config = config.resolved(str(device), resolve_precision(config.precision, device, training=True))
    with open_run_of(config, restart=restart) as run:
        if run.result is not None:
            return RareLabResult(run.path, run.result["rows"], run.result["parts"], already_finished=True)
        lab = RareLab(config, run)
        lab.run_parts()
        result = lab.conclude()
        run.finish(result)
        return RareLabResult(run.path, result["rows"], result["parts"])


class RareLab:
    """Loads the rows of a comparison, runs its parts, and scores them."""

    def __init__(self, config: RareLabConfig, run: RunFolder) -> None:
        self.config, self.run = config, run
        table = read_table(config.data, columns=config.columns or None, skip_bad_rows=config.skip_bad_rows)
        if table.num_skipped:
            warn(f"{config.data}: {plural(table.num_skipped, 'bad row is', 'bad rows are')} skipped.")
        self.pool = MinorityClassSampler(
            table.rows, config.rare_class, config.rate, max_train_rows=config.max_train_rows, seed=config.seed
        )
        if self.pool.num_repeated:
            note(f"{plural(self.pool.num_repeated, 'duplicate row is', 'duplicate rows are')} skipped.")
        self._check_model()
        self.seeds = [config.seed + number for number in range(config.seeds)]
        test = self.pool.parts(config.seed)
        self.gold = np.array([row.label == RARE for row in test.test])
        self.classes = np.array(test.test_classes, dtype=object)
        self.words = np.array([len(row.text.split()) + len((row.text_pair or "").split()) for row in test.test])
        self.sizes = {
            name: {"rows": rare + rest, "rare": rare}
            for name, (rare, rest) in zip(("train", "dev", "test"), self.pool.sizes, strict=True)
        }
        keys = "".join(row_key(row.text, row.text_pair) for row in test.test)
        self.digest = blake2b(keys.encode(), digest_size=16).hexdigest()
        self.found: dict[str, dict[int, MethodPredictions]] = {method: {} for method in METHODS}

    def run_parts(self) -> None:
        """Run the unfinished parts, seed by seed, with progress messages."""
        todo = [(method, seed) for seed in self.seeds for method in METHODS]
        started, done = time.monotonic(), 0
        for number, (method, seed) in enumerate(todo, start=1):
            path = self.run.path / "parts" / f"{method}-{seed}.json"
            if path.exists():
                self.found[method][seed] = self._read(path)
                continue
            left = f"; about {_minutes((time.monotonic() - started) / done * (len(todo) - number + 1))}" if done else ""
            note(f"Part {number} of {len(todo)}: {METHODS[method].title}, seed {seed}{left}.")
            finished = {name: by_seed[seed] for name, by_seed in self.found.items() if seed in by_seed}
            found = MethodRunner(self.config, self.pool.parts(seed), seed, finished).judge(method)
            self.run.check_inputs()  # of the model, which each part loads
            path.parent.mkdir(exist_ok=True)
            storage.write_json(path, self._as_json(found))
            self.found[method][seed] = found
            done += 1

    def conclude(self) -> dict[str, Any]:
        """Score all methods and write the report; returns the result of the run."""
        counts = draw_counts(len(self.gold), len(self.seeds), seed=self.config.seed)
        scores = {method: method_scores(self.gold, self.predictions_of(method), *counts) for method in METHODS}
        rows = [_row(method, scores) for method in METHODS]
        predictions = {method: self.predictions_of(method) for method in METHODS}
        curves = {  # the other methods have the scores of the method that they need
            method: mean_curve(self.gold, found, *counts)
            for method, found in predictions.items()
            if METHODS[method].needs is None
        }
        data = ComparisonData(
            self.config,
            self.gold,
            self.classes,
            self.sizes,
            self.pool.num_repeated,
            len(self.seeds),
            curves,
            mean_errors(predictions["autoencoder"]),
            self.words,
        )
        write_rare_lab_report(self.run, data, rows)
        return {
            "rows": rows,
            "parts": self.sizes,
            "curves": {method: curve.to_json() for method, curve in curves.items()},
            "errors": {name: data.errors[rows].tolist() for name, rows in data.rows_by_class.items()},
            "errors_by_length": errors_by_length(data),
        }

    def predictions_of(self, method: str) -> list[SeedPredictions]:
        """The predictions of a method for the test rows, seed by seed."""
        return [self.found[method][seed].test for seed in self.seeds]

    def _check_model(self) -> None:
        """Raise an error before training if the model is unsuitable."""
        model, _ = load_model(self.config.model, None)
        if model.tokenizer is None:
            raise InputError(f"{self.config.model} has no tokenizer: copy its tokenizer.json or vocab.txt to it.")
        positions = model.config.max_position_embeddings
        if self.config.max_length > positions:
            raise InputError(f"Setting 'max_length' is {self.config.max_length}; the model has {positions} positions.")

    def _as_json(self, found: MethodPredictions) -> dict[str, Any]:
        return {
            "test_rows": self.digest,
            "values": found.test.values.tolist(),
            "given": found.test.given.tolist(),
            "dev_values": found.dev_values.tolist(),
        }

    def _read(self, path: Path) -> MethodPredictions:
        facts = storage.read_json(path)
        if facts["test_rows"] != self.digest:
            raise RunError(
                f"{path} was made with other rows: {self.config.data} has changed. Restore the rows, or restart from "
                "scratch with --restart."
            )
        judged = SeedPredictions(np.array(facts["values"]), np.array(facts["given"], dtype=bool))
        return MethodPredictions(judged, np.array(facts["dev_values"]))


def _row(method: str, scores: dict[str, MethodScores]) -> dict[str, Any]:
    """The row of a method in the results."""
    own = scores[method]
    row: dict[str, Any] = {"method": method, "title": METHODS[method].title, "about": METHODS[method].about}
    several = len(own.observed) > 1
    for column, metric in enumerate(METRICS):
        deviation = float(own.observed[:, column].std(ddof=1)) if several else None
        row[metric] = {**own.interval(metric).to_json(), "deviation": deviation}
    if method != "plain":
        gaps = {metric: own.minus(scores["plain"], metric) for metric in METRICS}
        row["minus_plain"] = {
            metric: {**gap.to_json(), "beyond_noise": gap.is_beyond_noise} for metric, gap in gaps.items()
        }
    return row


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} min remaining" if seconds >= 90 else f"{seconds:.0f} s remaining"
