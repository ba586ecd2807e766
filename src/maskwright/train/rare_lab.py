"""Which way of finding a rare class helps on these rows: each method with each seed, scored on the same test rows.

A finished part (one method, one seed) stays in parts/, so the same command goes on where it was cut off.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from ..core import storage
from ..core.config import to_dict
from ..core.errors import InputError, RunError
from ..core.plural import plural
from ..core.progress import note, warn
from ..hub.folders import load_model
from ..models.device import resolve_device, resolve_precision
from ..tasks.rare_parts import RARE, RarePool
from ..tasks.rare_scores import METRICS, Judged, MethodScores, draw_counts, method_scores
from ..tasks.thresholds import row_key
from ..text.tables import read_table
from .rare_lab_config import RareLabConfig
from .rare_methods import METHODS, Found, Workshop
from .run import RunFolder, open_run


@dataclass(frozen=True)
class RareLabResult:
    """Where the results are, and the table: for each method {"method", "title", metric: {"mean", "low", "high",
    "deviation"}, "minus_plain": {metric: {"mean", "low", "high", "beyond_noise"}}}; parts: rows of train, dev, test.
    """

    output: Path
    rows: list[dict[str, Any]]
    parts: dict[str, dict[str, int]]
    already_finished: bool = False

    @property
    def report(self) -> Path:
        """The page to look at."""
        return self.output / "report.html"


def rare_lab(config: RareLabConfig, *, restart: bool = False) -> RareLabResult:
    """Run `config`, or go on with it where it was cut off; a finished run is not run again.

    Raises InputError for a class that is not there or a rate that is impossible, RunError when the folder holds another
    run or the rows have changed, RowErrors for bad rows, ModelFolderError for a model that cannot be read.
    """
    device = resolve_device(config.device)
    config = config.resolved(str(device), resolve_precision(config.precision, device, training=True))
    with open_run(config.output, to_dict(config), restart=restart) as run:
        if run.result is not None:
            return RareLabResult(run.path, run.result["rows"], run.result["parts"], already_finished=True)
        lab = RareLab(config, run)
        lab.run_parts()
        result = lab.conclude()
        run.finish(result)
        return RareLabResult(run.path, result["rows"], result["parts"])


class RareLab:
    """The rows of a comparison, its finished parts, and its scores."""

    def __init__(self, config: RareLabConfig, run: RunFolder) -> None:
        from .rare_lab_report import write_rare_lab_report

        self.config, self.run, self._write_report = config, run, write_rare_lab_report
        table = read_table(config.data, columns=config.columns or None, skip_bad_rows=config.skip_bad_rows)
        if table.num_skipped:
            warn(f"{config.data}: {plural(table.num_skipped, 'bad row is', 'bad rows are')} left out.")
        self.pool = RarePool(
            table.rows, config.rare_class, config.rate, max_train_rows=config.max_train_rows, seed=config.seed
        )
        if self.pool.num_repeated:
            many = plural(self.pool.num_repeated, "row repeats a text and is", "rows repeat a text and are")
            note(f"{many} left out.")
        self._check_model()
        self.seeds = [config.seed + number for number in range(config.seeds)]
        test = self.pool.parts(config.seed)
        self.gold = np.array([row.label == RARE for row in test.test])
        self.classes = np.array(test.test_classes, dtype=object)
        self.sizes = {
            name: {"rows": rare + rest, "rare": rare}
            for name, (rare, rest) in zip(("train", "dev", "test"), self.pool.sizes, strict=True)
        }
        keys = "".join(row_key(row.text, row.text_pair) for row in test.test)
        self.digest = blake2b(keys.encode(), digest_size=16).hexdigest()
        self.found: dict[str, dict[int, Found]] = {method: {} for method in METHODS}

    def run_parts(self) -> None:
        """Run what is not finished, seed by seed, telling how far it is."""
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
            found = Workshop(self.config, self.pool.parts(seed), seed, finished).judge(method)
            path.parent.mkdir(exist_ok=True)
            storage.write_json(path, self._as_json(found))
            self.found[method][seed] = found
            done += 1

    def conclude(self) -> dict[str, Any]:
        """Score all methods, write the page, and return what marks the run finished."""
        counts = draw_counts(len(self.gold), len(self.seeds), seed=self.config.seed)
        scores = {method: method_scores(self.gold, self.judged(method), *counts) for method in METHODS}
        rows = [_row(method, scores) for method in METHODS]
        self._write_report(self, rows)
        return {"rows": rows, "parts": self.sizes}

    def judged(self, method: str) -> list[Judged]:
        """What a method says of the test rows, seed by seed."""
        return [self.found[method][seed].test for seed in self.seeds]

    def _check_model(self) -> None:
        """Raise before anything is trained when the model will not do."""
        model, _ = load_model(self.config.model, None)
        if model.tokenizer is None:
            raise InputError(f"{self.config.model} has no tokenizer: put its tokenizer.json or vocab.txt beside it.")
        room = model.config.max_position_embeddings
        if self.config.max_length > room:
            raise InputError(f"Setting 'max_length' is {self.config.max_length}; the model has {room} positions.")

    def _as_json(self, found: Found) -> dict[str, Any]:
        return {
            "test_rows": self.digest,
            "values": found.test.values.tolist(),
            "given": found.test.given.tolist(),
            "dev_values": found.dev_values.tolist(),
        }

    def _read(self, path: Path) -> Found:
        facts = storage.read_json(path)
        if facts["test_rows"] != self.digest:
            raise RunError(
                f"{path} was made with other rows: {self.config.data} has changed since. Put the rows back, or start "
                "over with --restart."
            )
        judged = Judged(np.array(facts["values"]), np.array(facts["given"], dtype=bool))
        return Found(judged, np.array(facts["dev_values"]))


def _row(method: str, scores: dict[str, MethodScores]) -> dict[str, Any]:
    """The line of a method in the table."""
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
    return f"{seconds / 60:.0f} min left" if seconds >= 90 else f"{seconds:.0f} s left"
