"""Fine-tuning on labeled text with one seed or several, and in memory for the estimators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ...core import registry
from ...core.errors import InputError
from ...core.progress import note, warn
from ...core.randomness import generator
from ...core.util import plural
from ...hub.adapters import attach_adapter
from ...hub.download import find_folder
from ...hub.folders import LoadReport, load_model, merged, save_model
from ...inference.cluster import unit_vectors
from ...inference.embed import TextEncoder, embedder_of
from ...inference.ready import compute_in
from ...models.build import build
from ...models.config import ModelConfig
from ...models.device import DTYPES, resolve_device, resolve_precision
from ...models.encoder_decoder import EncoderDecoder
from ...models.model import Model, SentenceSettings, tokenizer_of
from ...models.presets import preset, special_token_settings
from ...tasks.base import Evaluation, Task
from ...tasks.evaluation.metrics import measure
from ...tasks.examples import Examples
from ...tasks.sequence import labeled
from ...tasks.similarity import kind_of, target_of
from ...tasks.specs import check_content, spec_of
from ...text.fingerprints import hold_out
from ...text.readers.tables import FoundRows, Row, Table
from ...text.tokenizers.encoding import TextCounts
from ...text.tokenizers.tokenizer import Tokenizer
from ...text.words import Sentence
from ..against_baseline import Compared
from ..callbacks import Callback
from ..checkpoint import mean_weights
from ..loop import LoopSettings, train
from ..run import RunFolder, RunResult, is_recorded_without, open_training
from ..schedules import Schedule
from .config import DEFAULT_EPOCHS, DEFAULT_LR, FinetuneConfig, epochs_for
from .job import DiskBestModelSaver, FinetuneJob, MemoryBestModelSaver, WeightAverager
from .report import RunData, write_finetune_report
from .seeds import SeedResult, SeedRunner, best_weights, statistics

# -- The labeled rows: read, and held out for dev ---------------------------------------------------------------------

DEV_SHARE = 0.1


@dataclass(frozen=True)
class LabeledData:
    """The rows of a run. from_train: whether dev was held out from train; skipped: number of skipped bad rows."""

    train: list[Any]
    dev: list[Any]
    from_train: bool
    skipped: int


def read_data(config: FinetuneConfig) -> LabeledData:
    """Read train and dev; without dev, hold out a tenth of train (`text.fingerprints`)."""
    cls: type[Task] = registry.resolve("task", config.task_name)
    train_table = _table(config, cls, config.train, config.train_target)
    if config.dev is not None:
        dev_table = _table(config, cls, config.dev, config.dev_target, like=train_table)
        return LabeledData(train_table.rows, dev_table.rows, False, train_table.num_skipped + dev_table.num_skipped)
    rows = train_table.rows
    if len(rows) < 10:
        noun = "sentence" if isinstance(rows[0], Sentence) else "row"
        raise InputError(
            f"{config.train} has {plural(len(rows), noun)}; 10 are needed to hold out a dev split. Pass --dev FILE."
        )
    lines = getattr(train_table, "groups", None)
    groups = [lines[row.line] for row in rows] if lines else None
    try:
        dev = hold_out(cls.strata(rows), cls.texts_apart(rows), DEV_SHARE, config.seed, groups)
    except InputError as error:
        raise InputError(f"{config.train}: {error} Pass --dev FILE.") from None
    are = "is" if len(dev) == 1 else "are"
    note(f"No --dev: {len(dev):,} of {len(rows):,} training rows {are} held out.")
    return LabeledData(
        [row for number, row in enumerate(rows) if number not in dev],
        [row for number, row in enumerate(rows) if number in dev],
        True,
        train_table.num_skipped,
    )


def _table(
    config: FinetuneConfig, cls: type[Task], path: Path, target: Path | None = None, like: FoundRows | None = None
) -> FoundRows:
    """like: the training rows, if their form is that of the dev examples as well."""
    spec = spec_of(config.task_name)
    own = {name: getattr(config, name) for name in spec.read_settings}
    if target is None and not config.columns:
        reader = check_content(path, config.task_name)
        own |= {"reader": reader} if len(spec.reads) > 1 else {}
    if isinstance(like, Table) and "multi_label" in own:
        own["like"] = like
    table = cls.read(
        path if target is None else (path, target),  # type: ignore[arg-type]  # of translation alone
        columns=config.roles or None,
        skip_bad_rows=config.skip_bad_rows,
        **own,
    )
    if table.num_skipped:
        warn(f"{path}: {plural(table.num_skipped, 'bad row is', 'bad rows are')} skipped.")
    return table


# -- Negatives for pairs that belong together: second texts of other pairs, drawn, or found by a sentence encoder ------
#
# Those that are found are the nearest to the first text (Karpukhin et al. 2020, section 3.2), except for those that are
# nearly as near as the positive, which are often right answers too (Moreira et al. 2024, section 4.2).

DRAWN = 4  # negatives of a first text for a cross-encoder whose file has none
MARGIN = 0.05  # a negative's cosine is at most this fraction of the positive's below it
BLOCK = 256  # first texts at a time


def add_negatives(config: FinetuneConfig, device: torch.device, *parts: list[Row]) -> list[list[Row]]:
    """Returns the rows of each part, train and dev, with the negatives that the recipe asks for.

    A cross-encoder gets some in any case, and in dev too; the others have those of the batch. Raises InputError for
    rows with scores, and for a model that finds none.
    """
    is_cross, count = config.encoder == "cross", config.hard_negatives
    train = parts[0]
    needed = is_cross and kind_of(train) == "pairs" and all(target_of(row, "pairs") for row in train)
    if not count and not needed:
        return list(parts)
    if kind_of(train) != "pairs":
        raise InputError(f"{config.train} has no pairs without a score, to which negatives could be added.")
    encoder, name = None, str(config.miner or config.model)
    if count and (encoder := sentence_encoder(name, config, device)) is None:
        raise InputError(f"{name} is no sentence encoder, so it finds no negatives: pass one as --set miner=MODEL.")
    found = [
        with_negatives(rows, count or DRAWN, encoder, config.seed) if is_cross or rows is train else rows
        for rows in parts
    ]
    how = f"found by {name}" if count else "drawn at random"
    note(f"{len(found[0]) - len(train):,} negatives for {len(train):,} training pairs are {how}.")
    return found


def sentence_encoder(name: str, config: FinetuneConfig, device: torch.device) -> TextEncoder | None:
    """The embeddings of a model as it is; None if it is no sentence encoder."""
    model, _ = load_model(name, None)
    if model.sentence is None:
        return None
    compute_in(model, config.precision)
    return embedder_of(model.to(device), name, pooling=model.sentence.pooling, max_length=config.max_length)


def with_negatives(rows: Sequence[Row], count: int, encoder: TextEncoder | None, seed: int = 0) -> list[Row]:
    """Returns the rows with the labels 1 and 0, and at most `count` new rows with the label 0 for each first text.

    encoder: finds the nearest second texts of other first texts; None to draw them, with `seed`.
    """
    labeled = [replace(row, label=f"{target_of(row, 'pairs'):g}") for row in rows]
    passages = list(dict.fromkeys(str(row.text_pair) for row in rows))
    place = {passage: number for number, passage in enumerate(passages)}
    asked: dict[str, Row] = {row.text: row for row in reversed(labeled) if row.label == "1"}
    own: dict[str, list[int]] = {}
    right: dict[str, list[int]] = {}
    for row in labeled:
        own.setdefault(row.text, []).append(place[str(row.text_pair)])
        if row.label == "1":
            right.setdefault(row.text, []).append(place[str(row.text_pair)])
    questions = list(right)
    if encoder is None:
        chosen = [
            generator(seed, "negatives", number).choice(
                len(passages), min(len(passages), count + len(own[text])), replace=False
            )
            for number, text in enumerate(questions)
        ]
        chosen = [found[~np.isin(found, own[text])] for found, text in zip(chosen, questions, strict=True)]
    else:
        chosen = []
        seconds = unit_vectors(encoder.vectors(passages))
        for start in range(0, len(questions), BLOCK):
            block = questions[start : start + BLOCK]
            for text, cosines in zip(block, unit_vectors(encoder.vectors(block)) @ seconds.T, strict=True):
                least = float(cosines[right[text]].min())
                cosines[own[text]] = -np.inf
                cosines[cosines > least - MARGIN * abs(least)] = -np.inf
                order = np.argsort(-cosines, kind="stable")[:count]
                chosen.append(order[np.isfinite(cosines[order])])
    new = [
        replace(asked[text], text_pair=passages[number], label="0")
        for text, found in zip(questions, chosen, strict=True)
        for number in found[:count].tolist()
    ]
    if not new:
        raise InputError(f"{rows[0].file} has no second text that can be a negative of another pair.")
    return [*labeled, *new]


# -- The model configuration of a task trained from scratch: a preset with the vocabularies of its tokenizers --------


def network_from_scratch(
    name: str, changes: Mapping[str, Any], tokenizer: Tokenizer, target: Tokenizer | None
) -> ModelConfig:
    """Preset `name` with these vocabularies and the changes of a recipe.

    target: the tokenizer of the target side, None if both sides share one. Decoders get the ids that start and end a
    text; character-level networks the id of the space. Raises InputError for unsuitable tokenizers.
    """
    published = preset(name)
    own: dict[str, Any] = {"vocab_size": tokenizer.vocab_size, "pad_token_id": tokenizer.pad_id or 0}
    if published.num_decoder_layers:
        written = target or tokenizer
        own["decoder_vocab_size"] = None if target is None else target.vocab_size
        own |= special_token_settings(published, written)
    elif target is not None:
        raise InputError(f"Preset {name} has no decoder: remove target_tokenizer.")
    if published.character_width or changes.get("character_width"):
        own["space_token_id"] = tokenizer.token_to_id(" ")  # the ids of characters follow it
        if tokenizer.word_markers.words != "space" or own["space_token_id"] is None:
            raise InputError(
                f"Preset {name} has character-level embeddings and needs a character tokenizer: train one with "
                "maskwright tokenizer train --kind char."
            )
    return preset(name, **{**own, **changes})


# -- Fine-tuning ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FitResult:
    """Result of `fit`. steps: number of optimizer steps; best_metrics: best dev metrics, {} without dev examples."""

    steps: int
    best_metrics: dict[str, float]


@dataclass(frozen=True)
class FinetuneResult(RunResult):
    """Paths and dev metrics of a run.

    mean, deviation: over seeds; seeds: the metrics of each; average: metrics of the model with averaged weights, None
    without weight averaging; calibration: temperature, and the calibration error before and after, if fitted; final:
    metrics of the saved model; signatures: how an external library computed some of them; baseline: the mean score
    compared with the task's trivial baseline (None in a run of an older version).
    """

    mean: dict[str, float]
    deviation: dict[str, float]
    seeds: list[dict[str, Any]]
    main_metric: str
    average: dict[str, float] | None = None
    calibration: dict[str, float] | None = None
    final: dict[str, float] = field(default_factory=dict)
    signatures: dict[str, str] = field(default_factory=dict)
    baseline: Compared | None = None


def fit(
    model: Model,
    task: Task,
    train_examples: Examples,
    dev_examples: Examples | None = None,
    *,
    epochs: int = DEFAULT_EPOCHS,
    lr: float = DEFAULT_LR,
    batch_size: int = 32,
    seed: int = 0,
    freeze_encoder: bool = False,
    precision: str = "auto",
    min_steps: int = 0,
    warmup_share: float = 0.1,
    weight_decay: float = 0.01,
    patience: int = 0,
    schedule: Schedule = "linear",
    accumulation: int = 1,
) -> FitResult:
    """Fine-tune `model` in place, without files; with dev examples it ends with the best weights on them."""
    device = next(model.parameters()).device
    compute_in(model, resolve_precision(precision, device, training=True))
    job = FinetuneJob(
        model,
        task,
        train_examples,
        dev_examples,
        MemoryBestModelSaver(),
        batch_size=batch_size,
        seed=seed,
        device=device,
        accumulation=accumulation,
        patience=patience,
        freeze_encoder=freeze_encoder,
    )
    settings = LoopSettings(
        steps=epochs_for(epochs, min_steps, job.steps_per_epoch) * job.steps_per_epoch,
        lr=lr,
        warmup=warmup_share,
        schedule=schedule,
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


def finetune(config: FinetuneConfig, *, restart: bool = False, callbacks: Sequence[Callback] = ()) -> FinetuneResult:
    """Fine-tunes for one task, or resumes the run in `config.output`; see `multi_task.finetune`, which is public."""
    device = resolve_device(config.device)
    config = config.resolved(str(device), resolve_precision(config.precision, device, training=True))
    if not restart and is_recorded_without(config.output, "min_steps"):
        config = replace(config, min_steps=0)  # a run of an older version resumes, or stays finished, with its settings
    with open_training(config, device, restart=restart, callbacks=callbacks) as run:
        if finished := run.finished():
            return _result(run, finished, already_finished=True)
        if run.group.world > 1:
            run.group.main_first(lambda: config.model and find_folder(config.model))  # which may download it
        return _result(run, FinetuningSetup(config, device).run_all(run))


class FinetuningSetup(SeedRunner):
    """Loads the data of a run and trains its seeds."""

    config: FinetuneConfig

    def __init__(self, config: FinetuneConfig, device: torch.device) -> None:
        self.config, self.device = config, device
        self.data = read_data(config)
        if config.encoder == "cross" or config.hard_negatives:
            both = add_negatives(config, device, self.data.train, self.data.dev)
            self.data = replace(self.data, train=both[0], dev=both[1])
        self.task = make_task(config, self.data)
        learned = list(self.task.learns_from(self.data.train))
        labeled = [  # before the model is loaded
            (len(rows), *self.task.read_labels(rows, str(path), config.skip_bad_rows))
            for rows, path in ((learned, config.train), (self.data.dev, config.dev or config.train))
        ]
        model, self.loaded = self._model(config.seed)
        self.tokenizer = tokenizer_of(model)
        model.config.check_length(config.max_length, "the model")
        train, self.dev = (self._examples(*one) for one in labeled)
        self.train = self.task.for_training(train)
        for name, examples in (("train", self.train), ("dev", self.dev)):
            for fact in self.task.facts(examples, name):
                note(fact)
            for remark in self.task.notes(examples, name, config.max_length):
                warn(remark)
            counts = examples.counts
            if counts.unknown_tokens:
                note(f"{name}: {counts.unknown_note()}.")
        if self.train.counts.all_unknown:
            raise InputError(
                f"All tokens of {config.train} are unknown to the model's tokenizer, so there is nothing to learn: "
                "use a model that was trained on such text."
            )
        if self.cosine is not None:
            note(
                f"dev: {self.task.main_metric} {self.cosine:.4f} by the cosine similarity of the embeddings of "
                f"{config.model}, before training. For similarity, maskwright finetune similarity starts from it."
            )

    def conclude(self, run: RunFolder, seeds: Sequence[SeedResult]) -> dict[str, Any]:
        """Write the best seed's model, or the average of all, and the report; returns the result of the run."""
        best = max(seeds, key=lambda seed: seed.metrics[self.task.main_metric])
        job = self.job(best.seed, RunFolder(best.folder, run.recipe))
        model = job.model
        job.conclude()
        if self.config.average_seeds:
            model.load_state_dict(mean_weights([best_weights(seed.folder) for seed in seeds]))
        evaluation = self.task.full_evaluation(model, self.dev)
        self.task.tune_threshold(evaluation.logits, self.dev)
        calibration = self._calibrate(evaluation) if self.config.calibrate else None
        means = statistics(seeds, best)
        result = {
            **means,
            "average": {"loss": evaluation.loss, **evaluation.metrics} if self.config.average_seeds else None,
            "calibration": calibration,
            "final": {"loss": evaluation.loss, **evaluation.metrics},
            "signatures": evaluation.signatures,
            "main_metric": self.task.main_metric,
            "baseline": self.compared(means["mean"][self.task.main_metric]).to_json(),
            "dev_from_train": self.data.from_train,
            "mix": None if model.top is None else model.top.mixture(),
            "weights": {"loaded": len(self.loaded.loaded), "new": self.loaded.new, "unused": self.loaded.unused},
        }
        facts = {
            **self.task.to_json(),
            "max_length": self.config.max_length,
            "training": {**run.recipe, **result},
            "examples": held_out_examples(self.dev.rows),
        }
        save_model(merged(model) if self.config.merge else model, run.path / "model", facts=facts, replace=True)
        write_finetune_report(run, self.run_data, seeds, evaluation, result)
        return result

    def _calibrate(self, evaluation: Evaluation) -> dict[str, float]:
        """Fit the temperature on the dev examples; the reported calibration error is cross-fitted on two halves."""
        temperature = self.task.calibrate(evaluation.logits, self.dev)
        if temperature.is_at_limit:
            warn(
                "The dev examples do not determine a temperature: all predictions are correct, or no better than "
                "chance."
            )
        after = self.task.score(evaluation.logits, self.dev).metrics["ece"]
        return {"temperature": temperature.value, "ece_before": evaluation.metrics["ece"], "ece": after}

    def compared(self, score: float) -> Compared:
        """A score compared with the task's trivial baseline, or with `cosine`."""
        found = Compared.of_task(self.run_data, score)
        if self.cosine is None or self.cosine <= found.baseline:
            return found
        predictor = "the cosine similarity before training, where finetune similarity starts"
        return replace(found, baseline=self.cosine, predictor=predictor, margin=0.0)

    @cached_property
    def cosine(self) -> float | None:
        """The main metric of the cosine similarity of two dev texts before training; None if it says nothing.

        It may be better than a regression, which reads both texts together and learns a new output.
        """
        rows, metric = self.dev.rows, self.task.main_metric
        is_regression = self.task.name == "regression" and self.config.encoder is None
        are_pairs = bool(rows) and all(row.text_pair for row in rows)
        if not (is_regression and are_pairs and metric in ("pearson", "spearman")) or self.config.model is None:
            return None
        encoder = sentence_encoder(str(self.config.model), self.config, self.device)
        if encoder is None or encoder.declared.kind != "dense":
            return None
        first, second = (
            unit_vectors(encoder.vectors(texts))
            for texts in zip(*((row.text, row.text_pair) for row in rows), strict=True)
        )
        return measure((metric,), labeled(self.dev).numpy(), (first * second).sum(axis=1))[metric]

    @property
    def run_data(self) -> RunData:
        """Task, rows and settings, for the baseline and the report."""
        return RunData(
            task=self.task,
            train_rows=self.data.train,
            dev_rows=list(self.dev.rows),
            train=self.train,
            dev=self.dev,
            max_length=self.config.max_length,
            first_model=self.first_model,
            saved_model=self.saved_model,
            config=self.config,
            is_split=self.data.from_train,
            num_skipped=self.data.skipped + self.train.num_skipped + self.dev.num_skipped,
            loaded=self.loaded,
        )

    def saved_model(self) -> Model | None:
        """The model that the run saved; None before, and for a run of several tasks."""
        folder = self.config.output / "model"
        if not folder.is_dir():
            return None
        model, _ = load_model(folder)
        model.compute_dtype = DTYPES[self.config.precision]
        return model.to(self.device)

    def first_model(self) -> Model:
        return self._model(self.config.seed)[0]

    def _examples(self, num_rows: int, rows: list[Any], targets: Any) -> Examples:
        found = self.task.tokenize(rows, self.tokenizer, self.config.max_length, targets, TextCounts())
        if self.config.skip_bad_rows and len(rows) < num_rows:
            warn(f"{plural(num_rows - len(rows), 'more bad row is', 'more bad rows are')} skipped.")
        return replace(found, num_skipped=num_rows - len(rows))

    def _model(self, seed: int) -> tuple[Model, LoadReport]:
        """The untrained network: loaded, or new from a preset; new weights are initialized from `seed`."""
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
            tokenizer = Tokenizer.load(config.tokenizer)  # type: ignore[arg-type]  # required without a model
            target = None if config.target_tokenizer is None else Tokenizer.load(config.target_tokenizer)
            network = network_from_scratch(str(config.preset), config.network, tokenizer, target)
            model = build(network, task.head, labels=task.labels or None, problem_type=task.problem_type, seed=seed)
            model.tokenizer = tokenizer
            if isinstance(model, EncoderDecoder):
                model.target_tokenizer = target
            report = LoadReport([], [name for name, _ in model.named_parameters()], [])
        tokenizer_of(model, str(config.model))
        model = task.extend_vocabulary(model)
        if config.adapter is not None:
            attach_adapter(model, str(config.model), config.lora, report.new, seed, config.network)
        task.bind(model)
        if task.head in (None, "mlm"):
            declared, kind = model.sentence, "dense" if task.head is None else "sparse"
            if declared is None or declared.kind != kind:
                declared = SentenceSettings(normalize=task.head is None, max_length=config.max_length)
                model.projection = None
            if task.head is not None:
                declared = replace(declared, sparse=declared.sparse or "max")
            model.sentence = replace(declared, dimensions=None, default_prompt=None)  # training uses neither
        compute_in(model, config.precision)
        model.recomputes = config.activation_checkpointing
        return model.to(self.device), report

    def start(self, seed: int) -> tuple[Model, Examples, Examples]:
        """The untrained network, its new head initialized from the training data, and the prepared train and dev."""
        model, loaded = self._model(seed)
        train, dev = (self.task.prepare(model, examples) for examples in (self.train, self.dev))
        if has_new_head(loaded):
            self.task.init_from_counts(model, train)
        return model, train, dev

    def job(self, seed: int, folder: RunFolder) -> FinetuneJob:
        config = self.config
        model, train, dev = self.start(seed)
        return FinetuneJob(
            model,
            self.task,
            train,
            dev,
            DiskBestModelSaver(best_weights(folder.path)),
            batch_size=config.batch_size,
            seed=seed,
            device=self.device,
            accumulation=config.accumulation,
            patience=config.patience,
            freeze_encoder=config.freeze_encoder,
            batch_tokens=config.batch_tokens,
            last=None
            if not config.average_checkpoints or not folder.group.is_main
            else WeightAverager(folder.path / "last", config.average_checkpoints),
        )


def has_new_head(loaded: LoadReport) -> bool:
    """Whether the head was newly initialized rather than loaded with the model."""
    return any("classifier" in name or name.startswith("head.") for name in loaded.new)


def make_task(config: FinetuneConfig, data: LabeledData) -> Task:
    """The task with the labels of the training rows."""
    cls: type[Task] = registry.resolve("task", config.task_name)
    task = cls.from_rows(data.train, data.dev, train_file=str(config.train), **config.of_task(config.task_name))
    if config.metric is not None:
        task.choose_by(config.metric)
    return task


def _result(run: RunFolder, result: dict[str, Any], already_finished: bool = False) -> FinetuneResult:
    baseline = Compared.from_json(result["baseline"]) if "baseline" in result else None
    return FinetuneResult.of(run, result, baseline=baseline, already_finished=already_finished)


# -- A few held-out rows that a model folder carries, so that the studio opens on texts of the model's task ----------

MAX_EXAMPLES = 3
MAX_TEXT, MAX_PAIR = 200, 1_000  # characters


def held_out_examples(rows: Sequence[Any]) -> list[dict[str, Any]]:
    """Return up to three short rows, one of each label first: {"text", "text_pair", "label"}, without empty entries.

    rows: `AnyRow`s that the model was not trained on.
    """
    short = [row for row in rows if 0 < len(row.text) <= MAX_TEXT and len(row.text_pair or "") <= MAX_PAIR]
    firsts: dict[str, Any] = {}
    for row in short:
        firsts.setdefault(str(row.label), row)
    others = [row for row in short if firsts[str(row.label)] is not row]
    found = []
    for row in [*firsts.values(), *others][:MAX_EXAMPLES]:
        label = row.label if isinstance(row.label, (str, int, float)) else None
        facts = {"text": row.text, "text_pair": row.text_pair, "label": label}
        found.append({name: value for name, value in facts.items() if value is not None})
    return found
