"""All runs of a benchmark in order, each a separate fine-tuning run in the benchmark's folder.

data/PART/            the rows of a part                  results.json, table.md, report.html   updated after each part
models/PART/seed-N/   a run of `finetune` for each seed   submission/   leaderboard files, if enabled

The other runs of a grid are in models/PART/grid/. Rerunning the same command resumes an interrupted benchmark: finished
runs are skipped, and an unfinished one resumes from its checkpoint.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...core import storage
from ...core.errors import InputError, MissingFileError
from ...core.progress import note, warn
from ...hub.folders import load_model, read_facts
from ...inference.predict import Predictor
from ...inference.ready import place
from ...models.device import resolve_device, resolve_precision
from ...tasks.base import task_of_model
from ...tasks.evaluation.submission import GLUE_PARTS, write_submission
from ...tasks.qa.windows import make_windows
from ...tasks.specs import spec_of
from ...tasks.tagging.examples import window_sentences
from ...text.readers.glue import glue_files, read_glue
from ...text.readers.squad import Question, ReferenceAnswer
from ...text.readers.tagged import Sentence
from ...text.tokenizers.encoding import TextCounts
from ...text.tokenizers.tokenizer import Tokenizer
from ...train.finetuning.config import FinetuneConfig
from ...train.finetuning.finetune import best_weights, finetune
from ...train.run import RunFolder, open_run_of
from .config import BenchmarkConfig, Setting
from .prepare import Part, Prepared, Record, capped, chosen_parts, find_sources, prepare, read_all
from .results import PartResult, Results, markdown, part_result, write_page

# -- Progress of a benchmark: number of finished runs, and estimated remaining time ----------------------------------


class Clock:
    """Counts runs and their training rows. rows: number of training rows of each part."""

    def __init__(self, rows: Iterable[int], config: BenchmarkConfig) -> None:
        settings, others = config.settings, config.seeds - 1  # the first seed runs all settings
        self.total, self.rows = 0, 0
        for count in rows:
            self.total += len(settings) + others
            self.rows += count * (sum(one.epochs for one in settings) + others * settings[0].epochs)
        self.seen: set[Path] = set()
        self.started, self.rows_done, self.rows_now = time.monotonic(), 0, 0

    def announce(self, what: str) -> str:
        """The message before a run."""
        words = f"run {min(len(self.seen) + 1, self.total)} of {self.total}: {what}"
        if not self.rows_now:
            return words
        seconds = (time.monotonic() - self.started) * max(self.rows - self.rows_done, 0) / self.rows_now
        return f"{words}; about {max(round(seconds / 60), 1):,} min remaining"

    def tick(self, folder: Path, rows: int, *, is_new: bool) -> None:
        """Count the finished run in `folder`. is_new: whether it was trained now; rows: rows times epochs."""
        if folder in self.seen:
            return
        self.seen.add(folder)
        self.rows_done += rows
        self.rows_now += rows if is_new else 0


# -- Loads a model that a benchmark has fine-tuned -------------------------------------------------------------------


def open_model(folder: Path, config: BenchmarkConfig) -> Predictor:
    """Load the model folder of a run, on the benchmark's device and in its precision."""
    model, facts = load_model(folder)[0], read_facts(folder)
    return Predictor(place(model, config.device, config.precision), task_of_model(model, facts))


# -- The dry run of a benchmark: rows, runs, steps and disk space. Nothing is written --------------------------------


@dataclass(frozen=True)
class BenchmarkTaskPlan:
    """The plan of one part. rows: of each split, training rows after the limit; sequences: per training epoch; steps:
    of all its runs together.
    """

    name: str
    files: dict[str, str]
    rows: dict[str, int]
    rows_in_file: int
    sequences: int
    settings: list[str]
    runs: int
    steps: int


@dataclass(frozen=True)
class Plan:
    """The plan of a benchmark. missing: score -> why it cannot be measured; disk_bytes: of the saved models."""

    parts: list[BenchmarkTaskPlan]
    missing: dict[str, str]
    runs: int
    steps: int
    disk_bytes: int


def plan_benchmark(config: BenchmarkConfig) -> Plan:
    """Read the files and count. Raises the same errors for files, rows and model as the run."""
    parts = {part.name: part for part in chosen_parts(config.benchmark, config.tasks)}
    sources, missing = find_sources(config.data, parts.values())
    model = load_model(config.model)[0]
    if model.tokenizer is None:
        raise InputError(f"{config.model} has no tokenizer: copy its tokenizer.json or vocab.txt to the model folder.")
    files = {source.part.name: {split: str(path) for split, path in source.files.items()} for source in sources}
    planned = []
    for name, splits in read_all(sources, config).items():
        part = parts[name]
        train = capped(splits["train"].records, config, part)
        sequences = _sequences(part, train, model.tokenizer, config.max_length or part.max_length)
        settings, others = config.settings, config.seeds - 1
        steps = [one.epochs * -(-sequences // one.batch_size) for one in settings]
        rows = {split: len(found.records) for split, found in splits.items()} | {"train": len(train)}
        planned.append(
            BenchmarkTaskPlan(
                name,
                files[name],
                rows,
                len(splits["train"].records),
                sequences,
                [one.words for one in settings],
                len(settings) + others,
                sum(steps) + others * max(steps),  # the best setting of a grid is not known yet
            )
        )
    runs = sum(part.runs for part in planned)
    size = 4 * sum(parameter.numel() for parameter in model.parameters())
    return Plan(planned, missing, runs, sum(part.steps for part in planned), runs * size)


def _sequences(part: Part, records: list[Record], tokenizer: Tokenizer, max_length: int) -> int:
    """Sequences per epoch: rows, or windows for tasks that split long rows."""
    reader = spec_of(part.task).reads[0]
    if reader == "questions":
        rows = [
            Question(
                one["id"],
                one["question"],
                one["context"],
                tuple(ReferenceAnswer(answer["text"], answer["answer_start"]) for answer in one["answers"]),
                number,
                part.name,
            )
            for number, one in enumerate(records, start=1)
        ]
        return len(make_windows(rows, tokenizer, max_length))
    if reader == "tagged":
        sentences = [
            Sentence.of_words(one["tokens"], one["tags"], number, part.name)
            for number, one in enumerate(records, start=1)
        ]
        return len(window_sentences(sentences, tokenizer, max_length, counts=TextCounts()))
    return len(records)


def to_json(plan: Plan) -> dict[str, Any]:
    """Plain values."""
    return {**vars(plan), "parts": [vars(part) for part in plan.parts]}


# -- Leaderboard files of GLUE: predictions of the best seed on dev for the test rows of each part -------------------


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
