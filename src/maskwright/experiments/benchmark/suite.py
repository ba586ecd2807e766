"""All runs of a benchmark in order, each a separate fine-tuning run in the benchmark's folder.

data/PART/            the rows of a part                  results.json, table.md, report.html   updated after each part
models/PART/seed-N/   a run of `finetune` for each seed   submission/   leaderboard files, if enabled

The other runs of a grid are in models/PART/grid/. Rerunning the same command resumes an interrupted benchmark: finished
runs are skipped, and an unfinished one resumes from its checkpoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...core import storage
from ...core.progress import note
from ...models.device import resolve_device, resolve_precision
from ...train.finetuning.config import FinetuneConfig
from ...train.finetuning.finetune import best_weights, finetune
from ...train.run import RunFolder, open_run_of
from .clock import Clock
from .config import BenchmarkConfig, Setting
from .opening import open_model
from .page import write_page
from .parts import chosen_parts
from .prepare import Prepared, prepare
from .results import PartResult, Results, part_result
from .sources import find_sources
from .submit import submit
from .tables import markdown

RESULTS = "results.json"


@dataclass(frozen=True)
class BenchmarkResult:
    """Paths and results of a benchmark. submission: the leaderboard files, if enabled and there are test rows."""

    output: Path
    results: Results
    submission: dict[str, Any] | None = None
    already_finished: bool = False

    @property
    def report(self) -> Path:
        """The HTML report."""
        return self.output / "report.html"

    def to_json(self) -> dict[str, Any]:
        """The content of results.json."""
        return self.results.to_json() | {"submission": self.submission}


def run_benchmark(config: BenchmarkConfig, *, restart: bool = False) -> BenchmarkResult:
    """Run a benchmark, or resume it; a finished one is returned unchanged.

    Raises MissingFileError when the data folder has none of its files, RowErrors for bad rows, RunError when the output
    folder contains another run, Interrupted after a signal.
    """
    device = resolve_device(config.device)
    config = config.resolved(str(device), resolve_precision(config.precision, device, training=True))

    def files() -> dict[str, Path]:
        sources, _ = find_sources(config.data, chosen_parts(config.benchmark, config.tasks))
        return {f"{one.part.name} {split}": path for one in sources for split, path in one.files.items()}

    with open_run_of(config, {"data": files}, restart=restart) as run:
        if run.result is not None:
            facts = storage.read_json(run.path / RESULTS)
            return BenchmarkResult(run.path, Results.from_json(config, facts), facts["submission"], True)
        sources, missing = find_sources(config.data, chosen_parts(config.benchmark, config.tasks))
        for name, reason in missing.items():
            note(f"{name} is skipped: {reason}.")
        prepared = prepare(run.path, sources, config)
        run.check_inputs()
        results = Suite(run, config, prepared, missing).run_all()
        result = BenchmarkResult(run.path, results, submit(results, run.path) if config.submission else None)
        storage.write_json(run.path / RESULTS, result.to_json())
        run.finish({"results": RESULTS})
        return result


class Suite:
    """The runs of a benchmark."""

    def __init__(
        self, run: RunFolder, config: BenchmarkConfig, parts: Sequence[Prepared], missing: dict[str, str]
    ) -> None:
        self.run, self.config, self.parts, self.missing = run, config, list(parts), missing
        self.clock = Clock((part.rows("train") for part in parts), config)

    def run_all(self) -> Results:
        """Run every part; the results are rewritten after each."""
        finished: list[PartResult] = []
        for number, prepared in enumerate(self.parts, start=1):
            finished.append(self._run_part(prepared))
            waiting = [part.part.name for part in self.parts[number:]]
            results = Results(self.config, list(finished), self.missing, waiting)
            self._write(results)
        return results

    def _write(self, results: Results) -> None:
        storage.write_json(self.run.path / RESULTS, results.to_json() | {"submission": None})
        storage.write_text(self.run.path / "table.md", markdown(results))
        write_page(self.run, results)

    def _run_part(self, prepared: Prepared) -> PartResult:
        settings, tried = self.config.settings, {}
        setting = settings[0]
        if len(settings) > 1:
            for one in settings:
                metrics = self._train(prepared, one, self.config.seed, self._grid_folder(prepared, one))
                tried[one.words] = metrics[prepared.part.metric]
            setting = max(settings, key=lambda one: tried[one.words])  # the first of equals
            note(f"{prepared.part.name}: {setting.words} is the best of {len(settings)} on dev.")
        splits = [split for split in prepared.files if split != "train"]
        scores: dict[str, list[dict[str, float]]] = {split: [] for split in splits}
        models = []
        for seed in self.config.all_seeds:
            folder = self._folder(prepared, setting, seed, is_grid=len(settings) > 1)
            scores["dev"].append(self._train(prepared, setting, seed, folder))
            models.append(str(folder / "model"))
            for split in splits:
                if split != "dev":
                    scores[split].append(self._score(folder, prepared, split))
        return part_result(prepared, setting, self.config.all_seeds, scores, models, tried)

    def _grid_folder(self, prepared: Prepared, setting: Setting) -> Path:
        return self.run.path / "models" / prepared.part.folder / "grid" / setting.folder

    def _folder(self, prepared: Prepared, setting: Setting, seed: int, *, is_grid: bool) -> Path:
        """The folder of a seed's run; with a grid, that of the first seed is in the grid's folder."""
        if is_grid and seed == self.config.seed:
            return self._grid_folder(prepared, setting)
        return self.run.path / "models" / prepared.part.folder / f"seed-{seed}"

    def _train(self, prepared: Prepared, setting: Setting, seed: int, folder: Path) -> dict[str, float]:
        """The dev metrics of one run, which is trained unless it is finished."""
        part = prepared.part
        recipe = FinetuneConfig(
            train=prepared.files["train"],
            dev=prepared.files["dev"],
            output=folder,
            task=part.task,
            model=self.config.model,
            metric=part.metric,
            max_length=self.config.max_length or part.max_length,
            seed=seed,
            device=self.config.device,
            precision=self.config.precision,
            **setting._asdict(),
        )
        is_new = not (folder / "result.json").exists()
        if is_new:
            note(self.clock.announce(f"{part.name}, {setting.words}, seed {seed}"))
        self.run.check_inputs()  # of the model, which each run loads
        result = finetune(recipe)
        for seed_folder in folder.glob("seed-*"):  # needed only to resume
            storage.remove_folder(seed_folder / "checkpoints")
            storage.remove_folder(best_weights(seed_folder))
        self.clock.tick(folder, prepared.rows("train") * setting.epochs, is_new=is_new)
        if is_new:
            score = {part.metric: result.mean[part.metric]}
            self.run.log({"step": len(self.clock.seen), "part": part.name, "seed": seed, **score})
        return result.mean

    def _score(self, folder: Path, prepared: Prepared, split: str) -> dict[str, float]:
        """The metrics of a finished run on another split; cached in the run folder."""
        path = folder / f"scores-{split}.json"
        if not path.exists():
            predictor = open_model(folder / "model", self.config)
            table = predictor.task.read_known(prepared.files[split])
            storage.write_json(path, predictor.evaluate(table.rows)[1].metrics)
        found: dict[str, float] = storage.read_json(path)
        return found
