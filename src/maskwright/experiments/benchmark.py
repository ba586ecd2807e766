"""A public benchmark: finds its files, fine-tunes on each task over seeds, and compares with published scores.

data/PART/            the rows of a part                  results.json, table.md, report.html   updated after each part
models/PART/seed-N/   a run of `finetune` for each seed   submission/   leaderboard files, if enabled

The other runs of a grid are in models/PART/grid/. Every seed and setting sees the same rows: original files are
converted to JSON lines once, rows are sampled once, and CoNLL's tags become BIO (the original files start entities with
I-); the entities are unchanged. Scores are fractions. The best seed is the one with the best dev score, also for scores
on other files.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..core import storage
from ..core.config import read_toml
from ..core.errors import ConfigError, InputError, MissingFileError, RowError, RowErrors
from ..core.progress import note, warn
from ..core.randomness import generator
from ..core.registry import unknown_name
from ..core.util import plural
from ..hub.folders import load_model, read_facts
from ..inference.predict import Predictor
from ..inference.ready import place
from ..models.model import tokenizer_of
from ..report import Block, Command, Facts, Table
from ..tasks.base import task_of_model
from ..tasks.evaluation.published import GLUE_NINE, PublishedTable, glue_average, published
from ..tasks.qa.windows import make_windows
from ..tasks.tagging.examples import window_sentences
from ..tasks.tagging.schemes import find_notation, repair
from ..text.formats.files import PACKINGS
from ..text.readers.choices import read_choices
from ..text.readers.glue import GLUE_PARTS, glue_files, read_glue, write_submission
from ..text.readers.squad import read_questions
from ..text.readers.tagged import read_tagged
from ..text.tokenizers.encoding import TextCounts
from ..text.tokenizers.tokenizer import Tokenizer
from ..train.finetuning.config import FinetuneConfig
from ..train.finetuning.finetune import best_weights, finetune
from ..train.run import RunFolder
from .config import BenchmarkConfig, GridPoint
from .runner import Experiment, ExperimentResult, Part, Shown, run_experiment

# -- the tasks of each benchmark ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Source:
    """One task of a benchmark, which is one fine-tuning: an entry of benchmarks.toml."""

    name: str
    scores: Mapping[str, tuple[str, ...]]
    task: str = "classification"
    max_length: int = 128
    published: str = "glue"
    is_requested: bool = False
    folders: tuple[str, ...] = ()
    own: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    plain: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    anywhere: bool = False

    @property
    def metric(self) -> str:
        """The dev metric that chooses the best epoch, seed and setting."""
        return next(iter(self.scores.values()))[1]

    @property
    def folder(self) -> str:
        """cola, squad-1.1."""
        return self.name.lower().replace(" ", "-")


SOURCES: dict[str, tuple[Source, ...]] = {
    benchmark: tuple(Source(name, **entry) for name, entry in entries.items())
    for benchmark, entries in read_toml(Path(__file__).parent / "benchmarks.toml").items()
}
_FOLDERS = {name for sources in SOURCES.values() for source in sources for name in source.folders}


def chosen_sources(benchmark: str, names: tuple[str, ...]) -> list[Source]:
    """The tasks called `names`, ignoring case, hyphens and dots; without names, all except those that must be named.

    Raises ConfigError with the nearest name for an unknown one.
    """
    sources = SOURCES[benchmark]
    if not names:
        return [source for source in sources if not source.is_requested]
    wanted = set()
    for name in names:
        found = [source.name for source in sources if _plain(name) in {_plain(source.name), *source.folders}]
        if not found:
            raise ConfigError(unknown_name(f"task of {benchmark}", name, [source.name for source in sources]))
        wanted.add(found[0])
    return [source for source in sources if source.name in wanted]


def _plain(name: str) -> str:
    """Letters and digits of a name, lowercase."""
    return "".join(letter for letter in name.casefold() if letter.isalnum())


def find_files(config: BenchmarkConfig) -> tuple[dict[str, dict[str, Path]], dict[str, str]]:
    """The files of each task with training and dev rows by split, and the reason for each score that has none.

    Raises MissingFileError when the data folder is not a folder, or has no task.
    """
    folder = config.data
    if not folder.is_dir():
        raise MissingFileError(f"{folder} is not a folder: pass the one that contains the benchmark's files.")
    found: dict[str, dict[str, Path]] = {}
    missing: dict[str, str] = {}
    for source in chosen_sources(config.benchmark, config.tasks):
        files, reason = _files(folder, source)
        lacks = [split for split in ("train", "dev") if split not in files]
        if not lacks:
            found[source.name] = files
        for name, (split, *_) in source.scores.items():
            if lacks:
                noun = "files are" if len(lacks) > 1 else "file is"
                missing[name] = reason or f"its {' and '.join(lacks)} {noun} missing"
            elif split not in files:
                missing[name] = f"its {split} file is missing"
    if not found:
        told = "; ".join(f"{name}: {reason}" for name, reason in missing.items())
        raise MissingFileError(
            f"{folder} does not contain any part of the benchmark with train and dev examples ({told})."
        )
    return found, missing


def _files(folder: Path, source: Source) -> tuple[dict[str, Path], str]:
    """The files by split, and the reason if there are none."""
    if not source.folders:
        try:
            files = glue_files(folder, source.name)
        except MissingFileError as error:
            return {}, str(error).removeprefix(f"{folder} ").rstrip(".")
        return files | ({"dev": files["dev_matched"]} if "dev_matched" in files else {}), ""
    top = _plain(folder.resolve().name)
    is_own = top in source.folders or (source.anywhere and top not in _FOLDERS)
    named = [one for one in sorted(folder.iterdir()) if one.is_dir() and _plain(one.name) in source.folders]
    for one in named + [folder] * is_own:
        files = _in_folder(one, source.own) or _in_folder(one, source.plain)
        if files:
            return files, ""
    return _in_folder(folder, source.own), ""


def _in_folder(folder: Path, names: Mapping[str, tuple[str, ...]]) -> dict[str, Path]:
    paths = {
        split: [folder / f"{file}{packing}" for file in files for packing in ("", *PACKINGS)]
        for split, files in names.items()
    }
    hits = {split: next((path for path in found if path.is_file()), None) for split, found in paths.items()}
    return {split: path for split, path in hits.items() if path is not None}


# -- original files -> rows that `finetune` reads ----------------------------------------------------------------------


@dataclass(frozen=True)
class Split:
    """One file. records: its rows as written; skipped: number of bad rows; without_gold: of rows without a gold one."""

    rows: Sequence[Any]
    records: list[dict[str, Any]]
    file: str
    skipped: int
    without_gold: int = 0

    def capped(self, config: BenchmarkConfig, name: str) -> Split:
        """A random sample of at most `max_train_rows` rows, in the order of the file."""
        if not config.max_train_rows or len(self.rows) <= config.max_train_rows:
            return self
        order = generator(config.seed, f"rows of {name}").permutation(len(self.rows))
        kept = sorted(order[: config.max_train_rows].tolist())
        return Split([self.rows[one] for one in kept], [self.records[one] for one in kept], self.file, self.skipped)


def _read(source: Source, path: Path, skip_bad_rows: bool) -> Split:
    if not source.folders:
        glue = read_glue(path, source.name, skip_bad_rows=skip_bad_rows)
        has_pair = any(row.text_pair is not None for row in glue.rows)
        records: list[dict[str, Any]] = [
            {"text": row.text, **({"text_pair": row.text_pair} if has_pair else {}), "label": row.label}
            for row in glue.rows
        ]
        skipped = len({fault.line for fault in glue.skipped})
        return Split(glue.rows, records, str(path), skipped, glue.num_without_gold)
    found: Any
    if source.task == "qa":
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
    elif source.task == "tagging":
        found = read_tagged(path, skip_bad_rows=skip_bad_rows)
        notation = find_notation(tag for row in found.rows for tag in row.tags or ())
        if notation is None:
            raise InputError(
                f"{path} has no entity tags (B-PER, I-PER, O) in its last column: is it a file of CoNLL-2003?"
            )
        scheme = "BIO" if notation.scheme in ("IO", "IOB1") else notation.scheme
        tags = [repair([notation.read(tag) or tag for tag in row.tags or ()], scheme)[0] for row in found.rows]
        records = [{"tokens": list(row.words), "tags": own} for row, own in zip(found.rows, tags, strict=True)]
    else:
        found = read_choices(path, skip_bad_rows=skip_bad_rows)
        names = ("context", "question", "choices", "label")
        records = [{name: getattr(row, name) for name in names} for row in found.rows]
    return Split(found.rows, records, str(path), found.num_skipped)


def read_all(files: Mapping[str, Mapping[str, Path]], config: BenchmarkConfig) -> dict[str, dict[str, Split]]:
    """The rows of tasks by split, training rows sampled. Raises RowErrors with the bad rows of every file."""
    found: dict[str, dict[str, Split]] = {}
    bad: list[RowError] = []
    for source in chosen_sources(config.benchmark, config.tasks):
        own = files.get(source.name, {})
        for split in dict.fromkeys(["train", *(split for split, *_ in source.scores.values())]):
            if split in own:
                try:
                    found.setdefault(source.name, {})[split] = _read(source, own[split], config.skip_bad_rows)
                except RowErrors as error:
                    bad += error.rows
    if bad:
        raise RowErrors(bad)
    return found


def prepare(run: Path, files: Mapping[str, Mapping[str, Path]], config: BenchmarkConfig) -> dict[str, dict[str, Any]]:
    """Write the rows of each task to `run/data` unless they exist; returns what is known of them (facts.json).

    Nothing is written before all files are read.
    """
    folders = {source.name: run / "data" / source.folder for source in chosen_sources(config.benchmark, config.tasks)}
    new_files = {name: own for name, own in files.items() if not folders[name].is_dir()}
    for name, splits in read_all(new_files, config).items():
        facts: dict[str, Any] = {"part": name, "folder": str(folders[name]), "cap": config.max_train_rows or None}
        facts["splits"] = {}
        with storage.new_folder(folders[name]) as new:
            for key, split in splits.items():
                kept = split.capped(config, name) if key == "train" else split
                lines = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in kept.records)
                storage.write_text(new / f"{key}.jsonl", lines)
                facts["splits"][key] = {
                    "file": split.file,
                    "rows": len(kept.records),
                    "rows_in_file": len(split.records),
                    "skipped": split.skipped,
                    "without_gold": split.without_gold,
                }
                if split.skipped:
                    warn(f"{name}: {plural(split.skipped, 'bad row')} of {split.file} skipped.")
                if split.without_gold:
                    note(f"{name}: {split.without_gold:,} rows of {split.file} have no gold label and are skipped.")
            storage.write_json(new / "facts.json", facts)
    for name in files:
        storage.verify_folder(folders[name], fix="Remove the folder: its rows are read again.")
    return {name: storage.read_json(folders[name] / "facts.json") for name in files}


# -- the dry run: rows, runs, steps and disk space; nothing is written -------------------------------------------------


def plan_benchmark(config: BenchmarkConfig) -> dict[str, Any]:
    """Read the files and count. Raises the same errors for files, rows and model as the run.

    Returns {"parts": [{"name", "files", "rows": of each split, "rows_in_file", "sequences": of a training epoch,
    "settings", "runs", "steps": of all its runs}], "missing", "runs", "steps", "disk_bytes": of the saved models}.
    """
    files, missing = find_files(config)
    model = load_model(config.model)[0]
    tokenizer = tokenizer_of(model)
    parts: list[dict[str, Any]] = []
    read = read_all(files, config)
    for source in chosen_sources(config.benchmark, config.tasks):
        if source.name not in read:
            continue
        splits = read[source.name]
        train, points = splits["train"].capped(config, source.name), config.points
        sequences = _sequences(source.task, train.rows, tokenizer, config.max_length or source.max_length)
        steps = [one.epochs * -(-sequences // one.batch_size) for one in points]
        parts.append(
            {
                "name": source.name,
                "files": {split: str(path) for split, path in files[source.name].items()},
                "rows": {split: len(found.rows) for split, found in splits.items()} | {"train": len(train.rows)},
                "rows_in_file": len(splits["train"].rows),
                "sequences": sequences,
                "settings": [one.words for one in points],
                "runs": len(points) + config.seeds - 1,
                "steps": sum(steps) + (config.seeds - 1) * max(steps),  # the best setting of a grid is not known yet
            }
        )
    runs = sum(part["runs"] for part in parts)
    size = 4 * sum(parameter.numel() for parameter in model.parameters())
    steps_in_all = sum(part["steps"] for part in parts)
    return {"parts": parts, "missing": missing, "runs": runs, "steps": steps_in_all, "disk_bytes": runs * size}


def _sequences(task: str, rows: Sequence[Any], tokenizer: Tokenizer, max_length: int) -> int:
    """Sequences per epoch: rows, or windows for tasks that split long rows."""
    if task == "qa":
        return len(make_windows(rows, tokenizer, max_length))
    if task == "tagging":
        return len(window_sentences(rows, tokenizer, max_length, counts=TextCounts()))
    return len(rows)


# -- the experiment ----------------------------------------------------------------------------------------------------


def run_benchmark(config: BenchmarkConfig, *, restart: bool = False) -> ExperimentResult:
    """Run a benchmark, or resume it; see `run_experiment`. Raises MissingFileError without its files.

    The facts of its result, also in results.json: "parts", for each task its "setting", "seeds", "best_seed", "models",
    and "numbers": name -> {"split", "rows", "metric": the main one, metric: {"mean", "deviation", "best", "seeds"}};
    "average" of the nine scores of GLUE, None if any is missing; "missing", score -> reason; "submission".
    """
    return run_experiment(Benchmark, config, restart=restart)


def _found(config: BenchmarkConfig) -> dict[str, Callable[[], dict[str, Path]]]:
    def files() -> dict[str, Path]:
        return {f"{name} {split}": path for name, own in find_files(config)[0].items() for split, path in own.items()}

    return {"data": files}


class Benchmark(Experiment):
    """The runs of a benchmark."""

    inputs = staticmethod(_found)  # type: ignore[assignment]
    config: BenchmarkConfig

    def __init__(self, config: BenchmarkConfig, run: RunFolder) -> None:
        super().__init__(config, run)
        files, self.missing = find_files(config)
        for name, reason in self.missing.items():
            note(f"{name} is skipped: {reason}.")
        self.data = prepare(run.path, files, config)
        run.check_inputs()
        self.sources = [source for source in chosen_sources(config.benchmark, config.tasks) if source.name in files]

    def measure(self) -> dict[str, Any]:
        done: list[dict[str, Any]] = []
        for source in self.sources:
            self.keeper.expect(self._runs(source, self.config.points, self.config.all_seeds[:1]))
            self.keeper.expect(self._runs(source, self.config.points[:1], self.config.all_seeds[1:]))
        for number, source in enumerate(self.sources, start=1):
            done.append(self._measure(source))
            facts = self._facts(done, [one.name for one in self.sources[number:]])
            self.write(json.loads(json.dumps(facts)))
        if self.config.submission:
            facts["submission"] = submit(done, self.run.path, self.config)
        storage.write_json(self.run.path / "results.json", facts)
        return facts

    def write(self, facts: dict[str, Any]) -> None:
        super().write(facts)
        storage.write_json(self.run.path / "results.json", facts)

    def _runs(self, source: Source, points: Sequence[GridPoint], seeds: Sequence[int]) -> list[Part]:
        rows = self.data[source.name]["splits"]["train"]["rows"]
        return [
            Part(
                f"{source.folder}-batch-{point.batch_size}-lr-{point.lr:g}-epochs-{point.epochs}-seed-{seed}",
                f"{source.name}, {point.words}, seed {seed}",
                partial(self._train, source, point, seed),
                rows * point.epochs,
            )
            for point in points
            for seed in seeds
        ]

    def _folder(self, source: Source, point: GridPoint, seed: int) -> Path:
        """The folder of a run; with a grid, those of the first seed are in the grid's folder."""
        folder = self.run.path / "models" / source.folder
        if len(self.config.points) > 1 and seed == self.config.seed:
            return folder / "grid" / f"batch-{point.batch_size}-lr-{point.lr:g}-epochs-{point.epochs}"
        return folder / f"seed-{seed}"

    def _train(self, source: Source, point: GridPoint, seed: int) -> dict[str, Any]:
        """The dev metrics of one run."""
        config, folder, data = self.config, self._folder(source, point, seed), self.run.path / "data" / source.folder
        recipe = FinetuneConfig(
            train=data / "train.jsonl",
            dev=data / "dev.jsonl",
            output=folder,
            task=source.task,
            model=config.model,
            metric=source.metric,
            max_length=config.max_length or source.max_length,
            seed=seed,
            device=config.device,
            precision=config.precision,
            **point._asdict(),
        )
        result = finetune(recipe)
        for seed_folder in folder.glob("seed-*"):  # needed only to resume
            storage.remove_folder(seed_folder / "checkpoints")
            storage.remove_folder(best_weights(seed_folder))
        return {"metrics": result.mean}

    def _measure(self, source: Source) -> dict[str, Any]:
        """Run one task and summarize it."""
        points, seeds, tried = self.config.points, self.config.all_seeds, {}
        best = points[0]
        if len(points) > 1:
            grid = self.run_parts(self._runs(source, points, seeds[:1])).values()
            tried = {one.words: found["metrics"][source.metric] for one, found in zip(points, grid, strict=True)}
            best = max(points, key=lambda one: tried[one.words])  # the first of equals
            note(f"{source.name}: {best.words} is the best of {len(points)} on dev.")
            self.keeper.number -= 1  # the first seed of the best setting is counted once
        dev = [found["metrics"] for found in self.run_parts(self._runs(source, [best], seeds)).values()]
        best_seed = int(np.argmax([metrics[source.metric] for metrics in dev]))  # the first of equals
        folders = [self._folder(source, best, seed) for seed in seeds]
        facts, numbers = self.data[source.name], {}
        for name, (split, *metrics) in source.scores.items():
            if split not in facts["splits"]:
                continue
            every = dev if split == "dev" else [self._score(folder, source, split) for folder in folders]
            known = [metric for metric in metrics if all(metric in one for one in every)]
            numbers[name] = {
                "split": split,
                "rows": facts["splits"][split]["rows"],
                "metric": metrics[0],
                **{metric: summary([one[metric] for one in every], best_seed) for metric in known},
            }
        return {
            "name": source.name,
            "task": source.task,
            "setting": best._asdict(),
            "facts": facts,
            "numbers": numbers,
            "best_seed": seeds[best_seed],
            "seeds": seeds,
            "models": [str(folder / "model") for folder in folders],
            "tried": tried,
        }

    def _score(self, folder: Path, source: Source, split: str) -> dict[str, float]:
        """The metrics of a finished run on another split; kept in its folder."""
        path = folder / f"scores-{split}.json"
        if not path.exists():
            predictor = open_model(folder / "model", self.config)
            table = predictor.task.read_known(self.run.path / "data" / source.folder / f"{split}.jsonl")
            storage.write_json(path, predictor.evaluate(table.rows)[1].metrics)
        found: dict[str, float] = storage.read_json(path)
        return found

    def _facts(self, parts: list[dict[str, Any]], waiting: list[str]) -> dict[str, Any]:
        config = self.config
        numbers = {name: number[number["metric"]] for part in parts for name, number in part["numbers"].items()}
        lacking = [name for name in GLUE_NINE if name not in numbers] if config.benchmark == "glue" else []
        average = None
        if config.benchmark == "glue" and not lacking:
            seeds = [
                glue_average({name: numbers[name]["seeds"][seed] for name in GLUE_NINE}) for seed in range(config.seeds)
            ]
            average = summary(seeds, 0) | {"best": glue_average({name: numbers[name]["best"] for name in GLUE_NINE})}
        return {
            "benchmark": config.benchmark,
            "model": config.model,
            "data": str(config.data),
            "seeds": config.all_seeds,
            "max_train_rows": config.max_train_rows or None,
            "parts": parts,
            "missing": self.missing,
            "waiting": waiting,
            "average": average,
            "average_lacks": lacking,
            "submission": None,
        }

    @classmethod
    def show(cls, recipe: Mapping[str, Any], facts: dict[str, Any]) -> Shown:
        parts, benchmark, average = facts["parts"], facts["benchmark"], facts["average"]
        numbers = {name: number for part in parts for name, number in part["numbers"].items()}
        said = [", ".join(f"{name} {plus_minus(number[number['metric']])}" for name, number in numbers.items()) + "."]
        if average:
            best = _percent(average["best"])
            said = [f"Average of the nine scores: {plus_minus(average)}; of the best seeds: {best}."]
        if benchmark == "glue" and not average:
            lacks = ", ".join(facts["average_lacks"])
            said.append(f"Average: not available, because some of the nine scores are missing ({lacks}).")
        said += [f"{name} is not measured: {reason}." for name, reason in facts["missing"].items()]
        said += [f"Not finished yet: {', '.join(facts['waiting'])}."] * bool(facts["waiting"])
        rows = [
            (name, metric.replace("_", " "), plus_minus(found), _percent(found["best"]), len(part["seeds"]),
             _train_rows(part), f"{number['rows']:,} {number['split'].replace('_', ' ')}")
            for part in parts
            for name, number in part["numbers"].items()
            for metric, found in number.items()
            if isinstance(found, dict)
        ]  # fmt: skip
        columns = ("number", "metric", "mean ± deviation", "best on dev", "seeds", "train rows", "rows")
        note_text = "Scores in percent. The best epoch of each seed and the best seed are chosen on dev, so dev scores"
        note_text += " are optimistic." + " The published numbers of GLUE are of its test sets." * (benchmark == "glue")
        names = [source.published for source in SOURCES[benchmark] if source.name in {part["name"] for part in parts}]
        tables = [table for name in dict.fromkeys(filter(None, names)) for table in published(name)]
        seeds = {name: ", ".join(map(_percent, number[number["metric"]]["seeds"])) for name, number in numbers.items()}
        blocks: list[Block] = [
            Facts(seeds, title="Every seed"),
            Facts({part["name"]: _setting(part) for part in parts}, title="Settings and seeds"),
            Facts(_rows(parts), title="Rows"),
        ]
        own = Table(columns, rows, title="Measured here", note=note_text, right=columns[2:6])
        steps = [_next(part) for part in parts]
        title = f"{benchmark} with {facts['model']}"
        return Shown(title, said, [own, *map(_published, tables)], blocks, steps)


def open_model(folder: Path, config: BenchmarkConfig) -> Predictor:
    """Load the model folder of a run, on the benchmark's device and in its precision."""
    model, facts = load_model(folder)[0], read_facts(folder)
    return Predictor(place(model, config.device, config.precision), task_of_model(model, facts))


def summary(values: Sequence[float], best: int) -> dict[str, Any]:
    """Mean and sample deviation (0 for one) over seeds, and the value of the seed that is the best on dev."""
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    seeds = [float(value) for value in values]
    return {"mean": float(np.mean(values)), "deviation": deviation, "best": seeds[best], "seeds": seeds}


def submit(parts: Iterable[dict[str, Any]], run: Path, config: BenchmarkConfig) -> dict[str, Any] | None:
    """Write the leaderboard files of GLUE: predictions of the best seed on dev for all test files of the data folder.

    Returns the archive, the files, the missing tasks, and the tasks with a wrong number of rows; None without files.
    """
    by_name, answers = {part["name"]: part for part in parts}, {}
    for name, wanted in GLUE_PARTS.items():
        part = by_name.get("MNLI" if name == "AX" else wanted.task)  # the MNLI model predicts the diagnostic rows
        try:
            path = None if part is None else glue_files(config.data, wanted.task).get(wanted.split)
        except MissingFileError:
            continue  # listed among the missing tasks
        if part is None or path is None:
            continue
        note(f"predicting the test rows of {name}")
        found = read_glue(path, wanted.task, with_labels=False)
        predictor = open_model(Path(part["models"][part["seeds"].index(part["best_seed"])]), config)
        given = [answer.get("label", answer["score"]) for _, answer in predictor.stream(found.rows)]
        answers[name] = (found.ids, given)
    if not answers:
        warn("There are no test files of the trained parts: no leaderboard files are written.")
        return None
    done = write_submission(run / "submission", answers)
    if not done.is_complete:
        short = [f"{name} ({found:,} of {needed:,} rows)" for name, (found, needed) in done.short.items()]
        warn(f"The leaderboard will reject the archive; missing: {', '.join([*done.missing, *short])}.")
    files = [str(path) for path in done.files]
    return {"archive": str(done.archive), "files": files, "missing": done.missing, "short": done.short}


def plus_minus(found: Mapping[str, Any]) -> str:
    """84.3 ± 0.4 in percent; without the deviation for one seed."""
    several = len(found["seeds"]) > 1
    return f"{_percent(found['mean'])} ± {_percent(found['deviation'])}" if several else _percent(found["mean"])


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"


def _train_rows(part: Mapping[str, Any]) -> str:
    train = part["facts"]["splits"]["train"]
    rows, whole = train["rows"], train["rows_in_file"]
    return f"{rows:,}" if rows == whole else f"{rows:,} of {whole:,}"


def _setting(part: Mapping[str, Any]) -> str:
    tried = f", the best on dev of {len(part['tried'])} settings" if part["tried"] else ""
    seeds = ", ".join(map(str, part["seeds"]))
    return f"{GridPoint(**part['setting']).words}{tried}; seeds {seeds}; best on dev: seed {part['best_seed']}"


def _rows(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for part in parts:
        for split, one in part["facts"]["splits"].items():
            left_out = one["skipped"] + one["without_gold"]
            remarks = [f"sampled from {one['rows_in_file']:,}"] * (one["rows"] < one["rows_in_file"])
            remarks += [f"{left_out:,} skipped"] * bool(left_out)
            name = f"{part['name']}, {split.replace('_', ' ')}"
            found[name] = (one["rows"], ", ".join(remarks)) if remarks else one["rows"]
    return found


def _published(table: PublishedTable) -> Table:
    """System and scores, with the same number of decimals in each column, "-" for missing scores."""
    columns = [[row.values.get(column.name) for row in table.rows] for column in table.columns]
    printed = []
    for values in columns:
        digits = max((len(repr(float(one)).partition(".")[2]) for one in values if one is not None), default=0)
        printed.append(["-" if one is None else f"{one:.{digits}f}" for one in values])
    names = [column.name for column in table.columns]
    rows = [[row.name, *cells] for row, *cells in zip(table.rows, *printed, strict=True)]
    title = f"Published, not measured here: {table.title} ({table.label})"
    note_text = f"Source: {table.source}. {' '.join(table.notes)}".strip()
    return Table(["system", *names], rows, title=title, note=note_text, right=names)


def _next(part: Mapping[str, Any]) -> Command:
    """A command for an ensemble of all seeds; with one seed, for its errors."""
    dev, models = f"{part['facts']['folder']}/dev.jsonl", part["models"]
    if len(models) > 1:
        return Command.suggest(f"{part['name']}: ensemble", "evaluate", model=models[0], file=dev, ensemble=models[1:])
    return Command.suggest(f"{part['name']}: its errors", "evaluate", model=models[0], file=dev, errors=10)
