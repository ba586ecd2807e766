"""Fine-tuning on labelled text, one seed or several; and the same in memory for the estimators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from ..core import registry
from ..core.config import to_dict
from ..core.errors import InputError, RowError, RowErrors
from ..core.plural import plural
from ..core.progress import note, warn
from ..core.randomness import generator
from ..hub.folders import LoadReport, load_model, save_model
from ..hub.sentence import Declared
from ..inference.ready import compute_in
from ..models.device import resolve_device, resolve_precision
from ..models.encoder_decoder import EncoderDecoder
from ..models.model import Model, build
from ..tasks.base import AnyTable, Evaluation, Task
from ..tasks.examples import Examples
from ..text.tokenizer import Tokenizer
from .average import mean_weights
from .finetune_config import FinetuneConfig
from .finetune_job import FinetuneJob, FolderKeeper, LastKeeper, MemoryKeeper
from .finetune_report import write_finetune_report
from .loop import LoopSettings, train
from .run import RunFolder, RunResult, open_run
from .scratch import network_from_scratch
from .seeds import Seed, Seeds, best_weights, statistics

DEV_SHARE = 0.1


@dataclass(frozen=True)
class FitResult:
    """What `fit` did: steps, and the best dev metrics ({} without dev rows)."""

    steps: int
    best_metrics: dict[str, float]


@dataclass(frozen=True)
class FinetuneResult(RunResult):
    """Where a run's results are, and its dev figures: mean and deviation over seeds, each seed's own, and those of
    the model whose weights are the mean of all seeds' (None where that was not asked for); calibration: temperature,
    and the calibration error before and with it, where asked for; final: scores of the model that the run ends with;
    signatures: how another library computed some of them.
    """

    mean: dict[str, float]
    deviation: dict[str, float]
    seeds: list[dict[str, Any]]
    main_metric: str
    average: dict[str, float] | None = None
    already_finished: bool = False
    calibration: dict[str, float] | None = None
    final: dict[str, float] = field(default_factory=dict)
    signatures: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class LabelledData:
    """The rows of a run. from_train: dev was set aside from train; skipped: bad rows left out."""

    train: list[Any]
    dev: list[Any]
    from_train: bool
    skipped: int

    def without(self, faults: Sequence[RowError]) -> LabelledData:
        """The same without the rows that have these faults."""
        bad = {(fault.file, fault.line) for fault in faults}
        train, dev = (
            [row for row in rows if not bad.intersection((row.file, line) for line in _lines(row))]
            for rows in (self.train, self.dev)
        )
        left_out = len(self.train) + len(self.dev) - len(train) - len(dev)
        return LabelledData(train, dev, self.from_train, self.skipped + left_out)


def _lines(row: Any) -> Sequence[int]:
    """The lines of a row: one, or those of a sentence's words."""
    return getattr(row, "lines", ()) or (row.line,)


def fit(
    model: Model,
    task: Task,
    train_examples: Examples,
    dev_examples: Examples | None = None,
    *,
    epochs: int = 3,
    lr: float = 5e-5,
    batch_size: int = 32,
    seed: int = 0,
    freeze_encoder: bool = False,
    precision: str = "auto",
    warmup_share: float = 0.1,
    weight_decay: float = 0.01,
    patience: int = 0,
) -> FitResult:
    """Fine-tune `model` in memory, in place; with dev examples it ends with the weights that scored best on them."""
    device = next(model.parameters()).device
    compute_in(model, resolve_precision(precision, device, training=True))
    job = FinetuneJob(
        model,
        task,
        train_examples,
        dev_examples,
        MemoryKeeper(),
        batch_size=batch_size,
        seed=seed,
        device=device,
        patience=patience,
        freeze_encoder=freeze_encoder,
    )
    settings = LoopSettings(
        steps=epochs * job.steps_per_epoch,
        lr=lr,
        warmup=warmup_share,
        schedule="linear",
        weight_decay=weight_decay,
        clip_norm=1.0,
        seed=seed,
        log_every=10,
        checkpoint_every=job.steps_per_epoch,
        evaluate_every=job.steps_per_epoch,
    )
    steps = train(job, settings, name="fine-tuning")
    job.conclude()
    return FitResult(steps, job.best["metrics"])


def finetune(config: FinetuneConfig, *, restart: bool = False) -> FinetuneResult:
    """Run `config`, or go on with it where it was cut off; a finished run is not run again.

    Raises RunError when the folder holds another run, RowErrors for bad rows, ModelFolderError for a model that cannot
    be read, Interrupted after a signal.
    """
    device = resolve_device(config.device)
    config = config.resolved(str(device), resolve_precision(config.precision, device, training=True))
    with open_run(config.output, to_dict(config), restart=restart) as run:
        if run.result is not None:
            return _result(run, run.result, already_finished=True)
        return _result(run, Bench(config, device).run_all(run))


class Bench(Seeds):
    """Holds the data of a run and runs its seeds."""

    config: FinetuneConfig

    def __init__(self, config: FinetuneConfig, device: torch.device) -> None:
        self.config, self.device = config, device
        self.task, self.data = pose_task(config, read_data(config))
        model, self.loaded = self._model(config.seed)
        self.tokenizer = model.tokenizer
        room = model.config.max_position_embeddings
        if config.max_length > room:
            raise InputError(f"Setting 'max_length' is {config.max_length}; the model has {room} positions.")
        learnt = list(self.task.learns_from(self.data.train))
        self.train = self.task.for_training(self._examples(learnt, config.train))
        self.dev = self._examples(self.data.dev, config.dev or config.train)
        for name, examples in (("train", self.train), ("dev", self.dev)):
            for remark in self.task.remarks(examples, name, config.max_length):
                warn(remark)
            counts = examples.counts
            if counts.unknown_tokens:
                note(f"{name}: {counts.unknown_note()}.")
        if self.train.counts.all_unknown:
            raise InputError(
                f"The model's vocabulary has no token of the texts of {config.train}, so there is nothing to learn: "
                "use a model that was trained on such text."
            )

    def conclude(self, run: RunFolder, seeds: Sequence[Seed]) -> dict[str, Any]:
        """Write the best seed's model, or the average of all, and the report; returns what marks the run finished."""
        best = max(seeds, key=lambda seed: seed.metrics[self.task.main_metric])
        job = self.job(best.seed, RunFolder(best.folder, run.recipe))
        model = job.model
        job.conclude()
        if self.config.average_seeds:
            model.load_state_dict(mean_weights([best_weights(seed.folder) for seed in seeds]))
        evaluation = self.task.full_evaluation(model, self.dev)
        self.task.settle(evaluation.logits, self.dev)
        calibration = self._calibrate(evaluation) if self.config.calibrate else None
        result = {
            **statistics(seeds, best),
            "average": {"loss": evaluation.loss, **evaluation.metrics} if self.config.average_seeds else None,
            "calibration": calibration,
            "final": {"loss": evaluation.loss, **evaluation.metrics},
            "signatures": evaluation.signatures,
            "main_metric": self.task.main_metric,
            "dev_from_train": self.data.from_train,
            "mix": None if model.top is None else model.top.mixture(),
            "weights": {
                "loaded": len(self.loaded.loaded),
                "new": self.loaded.new,
                "unused": self.loaded.unused,
            },
        }
        facts = {
            **self.task.to_json(),
            "max_length": self.config.max_length,
            "training": {**run.recipe, **result},
        }
        save_model(model, run.path / "model", facts=facts, replace=True)
        write_finetune_report(run, self, seeds, evaluation, result)
        return result

    def _calibrate(self, evaluation: Evaluation) -> dict[str, float]:
        """Fit the temperature on the dev rows; the calibration error with it is that of each half by the other's."""
        temperature = self.task.calibrate(evaluation.logits, self.dev)
        if temperature.is_at_limit:
            warn("The dev rows do not determine a temperature: all of them are right, or none is better than chance.")
        after = self.task.score(evaluation.logits, self.dev).metrics["ece"]
        return {"temperature": temperature.value, "ece_before": evaluation.metrics["ece"], "ece": after}

    def first_model(self) -> Model:
        """The network before its first step."""
        return self._model(self.config.seed)[0]

    def _examples(self, rows: list[Any], path: Path) -> Examples:
        return self.task.examples(rows, self.tokenizer, self.config.max_length, file=str(path))

    def _model(self, seed: int) -> tuple[Model, LoadReport]:
        """The network at its first step: loaded, or new from a preset; new weights are drawn from `seed`."""
        config, task = self.config, self.task
        if config.model is not None:
            model, report = load_model(
                config.model,
                task.head,
                labels=task.labels or None,
                problem_type=task.problem_type,
                seed=seed,
                top=config.network,
            )
        else:
            tokenizer = Tokenizer.load(config.tokenizer)  # type: ignore[arg-type]
            target = None if config.target_tokenizer is None else Tokenizer.load(config.target_tokenizer)
            network = network_from_scratch(str(config.preset), config.network, tokenizer, target)
            model = build(network, task.head, labels=task.labels or None, problem_type=task.problem_type, seed=seed)
            model.tokenizer = tokenizer
            if isinstance(model, EncoderDecoder):
                model.target_tokenizer = target
            report = LoadReport([], [name for name, _ in model.named_parameters()], [])
        if model.tokenizer is None:
            raise InputError(
                f"{config.model} has no tokenizer: put its tokenizer.json or vocab.txt beside the weights."
            )
        model = task.adapt(model)
        task.meet(model)
        if task.head is None:
            model.sentence = model.sentence or Declared(normalize=True, max_length=config.max_length)
        compute_in(model, config.precision)
        model.recomputes = config.activation_checkpointing
        return model.to(self.device), report

    def start(self, seed: int) -> tuple[Model, Examples, Examples]:
        """The network at its first step, its head told what the training rows say at once; and train and dev as the
        task prepares them for it.
        """
        model, loaded = self._model(seed)
        train, dev = (self.task.prepare(model, examples) for examples in (self.train, self.dev))
        if has_new_head(loaded):
            self.task.prime(model, train)
        return model, train, dev

    def job(self, seed: int, folder: RunFolder) -> FinetuneJob:
        """The training of a seed at its first step."""
        config = self.config
        model, train, dev = self.start(seed)
        return FinetuneJob(
            model,
            self.task,
            train,
            dev,
            FolderKeeper(best_weights(folder.path)),
            batch_size=config.batch_size,
            seed=seed,
            device=self.device,
            accumulation=config.accumulation,
            patience=config.patience,
            freeze_encoder=config.freeze_encoder,
            batch_tokens=config.batch_tokens,
            last=None
            if not config.average_checkpoints
            else LastKeeper(folder.path / "last", config.average_checkpoints),
        )


def has_new_head(loaded: LoadReport) -> bool:
    """Whether the head that answers was drawn anew; one that came with the model keeps what it has learnt."""
    return any("classifier" in name or name.startswith("head.") for name in loaded.new)


def read_data(config: FinetuneConfig) -> LabelledData:
    """Read train and dev; without dev, set a tenth of train aside, class by class where there are classes."""
    train_table = _table(config, config.train, config.train_target)
    if config.dev is not None:
        dev_table = _table(config, config.dev, config.dev_target)
        return LabelledData(train_table.rows, dev_table.rows, False, train_table.num_skipped + dev_table.num_skipped)
    rows = train_table.rows
    if len(rows) < 10:
        raise InputError(f"{config.train} has {plural(len(rows), 'row')}, too few to set some aside: give --dev.")
    dev = _set_aside(registry.resolve("task", config.task_name).strata(rows), config.seed)
    are = "is" if len(dev) == 1 else "are"
    note(f"No --dev: {len(dev):,} of {len(rows):,} training rows {are} set aside for it.")
    return LabelledData(
        [row for number, row in enumerate(rows) if number not in dev],
        [row for number, row in enumerate(rows) if number in dev],
        True,
        train_table.num_skipped,
    )


def pose_task(config: FinetuneConfig, data: LabelledData) -> tuple[Task, LabelledData]:
    """The task, and the data, where bad rows are skipped without those whose answers the task cannot have.

    Raises RowErrors as `make_task` does unless `config.skip_bad_rows`.
    """
    while True:
        try:
            return make_task(config, data), data
        except RowErrors as error:
            fewer = data.without(error.rows)
            if not config.skip_bad_rows or fewer.skipped == data.skipped:
                raise
            more = plural(fewer.skipped - data.skipped, "more bad row is", "more bad rows are")
            warn(f"{more} left out, the first: {error.rows[0]}")
            data = fewer


def make_task(config: FinetuneConfig, data: LabelledData) -> Task:
    """The task with its labels, from the rows. Raises RowErrors for dev labels that training does not know."""
    cls: type[Task] = registry.resolve("task", config.task_name)
    options = {name: getattr(config, name) for name in cls.settings}
    files = {"train_file": str(config.train), "dev_file": str(config.dev or config.train)}
    task = cls.from_rows(data.train, data.dev, **files, **options)
    if config.metric is not None:
        task.choose_by(config.metric)
    return task


def _table(config: FinetuneConfig, path: Path, target: Path | None = None) -> AnyTable:
    cls: type[Task] = registry.resolve("task", config.task_name)
    table = cls.read(
        path if target is None else (path, target),  # type: ignore[arg-type]  # of translation alone
        columns=config.columns or None,
        multi_label=config.multi_label,
        skip_bad_rows=config.skip_bad_rows,
        **{name: getattr(config, name) for name in cls.read_settings},
    )
    if table.num_skipped:
        warn(f"{path}: {plural(table.num_skipped, 'bad row is', 'bad rows are')} left out.")
    return table


def _set_aside(labels: Sequence[str], seed: int) -> set[int]:
    """Numbers of the rows for dev: a tenth of each label, at least one of a label with two rows or more."""
    chosen: set[int] = set()
    for label in sorted(set(labels)):
        rows = [number for number, other in enumerate(labels) if other == label]
        count = max(round(len(rows) * DEV_SHARE), 1) if len(rows) > 1 else 0
        order = generator(seed, f"set aside {label}").permutation(len(rows))
        chosen.update(rows[place] for place in order[:count].tolist())
    return chosen


def _result(run: RunFolder, result: dict[str, Any], already_finished: bool = False) -> FinetuneResult:
    return FinetuneResult(
        run.path,
        result["mean"],
        result["deviation"],
        result["seeds"],
        result["main_metric"],
        result.get("average"),  # a run of an older version has none
        already_finished,
        result.get("calibration"),
        result.get("final", {}),
        result.get("signatures", {}),
    )
