"""Compares models from bag of words to BERT on the same rows and budget, in one table.

Each model is pre-trained (if it needs that), fine-tuned over seeds, and measured in a separate process. Finished models
are kept, so rerunning the same command resumes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ...core import storage
from ...core.errors import InputError, MissingExtraError
from ...core.progress import note, warn
from ...hub.folders import load_model
from ...models.device import resolve_device, resolve_precision
from ...tasks.classification.task import Classification
from ...text.readers.tables import Row
from ...text.tokenizers.tokenizer import Tokenizer
from ...train.finetuning.config import FinetuneConfig
from ...train.finetuning.finetune import build_task, finetune
from ...train.finetuning.run_data import read_data
from ...train.pretraining.config import PretrainConfig
from ...train.pretraining.pretrain import pretrain
from ...train.pretraining.static_config import StaticConfig
from ...train.pretraining.static_embeddings import train_static_vectors
from ...train.run import RunFolder, open_run_of
from .config import LadderConfig
from .ladder_models import LadderModel, ladder_models
from .measure import measured_apart, times_of

MEASURED_TEXTS = 256
MB = 1 << 20


@dataclass(frozen=True)
class LadderResult:
    """Paths and results of a ladder.

    rows: name, title, score (mean and deviation over seeds), seconds of training and of pre-training, latency, texts
    per second, parameters, and megabytes on disk and in memory of each model; left_out: skipped models, and why.
    """

    output: Path
    metric: str
    rows: list[dict[str, Any]]
    left_out: dict[str, str]
    already_finished: bool = False

    @property
    def report(self) -> Path:
        """The HTML report."""
        return self.output / "report.html"


def ladder(config: LadderConfig, *, restart: bool = False) -> LadderResult:
    """Run `config`, or resume it; a finished run is returned unchanged.

    Raises RowErrors for bad rows, RunError when the folder contains another run, ModelFolderError for an unreadable
    model, InputError for an encoder-decoder.
    """
    device = resolve_device(config.device)
    config = config.resolved(str(device), resolve_precision(config.precision, device, training=True))
    with open_run_of(config, restart=restart) as run:
        if run.result is None:
            models = Ladder(config, run)
            rows = models.run_all()
            result = {"metric": models.metric, "rows": rows, "left_out": models.left_out, "dev_rows": len(models.dev)}
            from .report import write_ladder_report

            write_ladder_report(run, result)
            run.finish(result)
            return LadderResult(run.path, models.metric, rows, models.left_out)
        found = run.result
        return LadderResult(run.path, found["metric"], found["rows"], found["left_out"], already_finished=True)


class Ladder:
    """Loads the data of a ladder, and trains and measures its models."""

    def __init__(self, config: LadderConfig, run: RunFolder) -> None:
        self.config, self.run = config, run
        self.left_out: dict[str, str] = {}
        for model in config.models:
            _check_classifies(model)  # before any work: given models come last
        recipe = self._finetuning({"preset": "bert-tiny", "tokenizer": run.path / "tokenizer"}, "none")
        task, data = build_task(recipe, read_data(recipe))
        assert isinstance(task, Classification)
        self.task, self.train, self.dev = task, data.train, data.dev
        self.metric = config.metric or task.main_metric
        self.texts = run.path / "texts.json"
        if not self.texts.exists():
            shown = [row.text if row.text_pair is None else [row.text, row.text_pair] for row in self.dev]
            storage.write_json(self.texts, shown[:MEASURED_TEXTS])
        self.corpus = self._corpus()
        self.tokenizer = self._tokenizer()

    def run_all(self) -> list[dict[str, Any]]:
        """Run every unfinished model, with progress messages; returns the rows of all."""
        found = []
        models = ladder_models(self.config)
        for number, model in enumerate(models, 1):
            path = self.run.path / "rungs" / f"{model.name}.json"  # terms: ok
            if not path.exists():
                note(f"Model {number} of {len(models)}: {model.title} ({model.about}).")
                try:
                    row = self._run(model)
                    self.run.check_inputs()  # of the text and the models, which each part reads
                except MissingExtraError as error:
                    warn(f"{model.title} is skipped: {error}")
                    self.left_out[model.title] = str(error)
                    continue
                path.parent.mkdir(exist_ok=True)
                storage.write_json(path, row)
            found.append(storage.read_json(path))
        return found

    # -- models ----------------------------------------------------------------------------------------------------

    def _run(self, entry: LadderModel) -> dict[str, Any]:
        about = {"name": entry.name, "title": entry.title, "about": entry.about, "pretrain_seconds": 0.0}
        if entry.finetune is None:
            return about | self._bag_of_words()
        settings = dict(entry.finetune)
        if entry.pretrain is not None:
            settings["model"], about["pretrain_seconds"] = self._pretrain(entry)
        elif entry.name == "static":
            settings["model"], about["pretrain_seconds"] = self._static_vectors()
        elif "preset" in settings:
            settings["tokenizer"] = self.tokenizer
        result = finetune(self._finetuning(settings, entry.name))
        model, _ = load_model(result.model)
        seconds = _logged_seconds(result.output) / self.config.seeds
        size = (result.model / "model.safetensors").stat().st_size
        config = self.config
        measured = measured_apart(result.model, self.texts, config.device, "auto", torch.get_num_threads())
        return {
            **about,
            "score": result.mean[self.metric],
            "deviation": result.deviation[self.metric] if config.seeds > 1 else None,
            "train_seconds": seconds,
            "parameters": model.num_parameters,
            "disk_mb": size / MB,
            **measured,
        }

    def _bag_of_words(self) -> dict[str, Any]:
        """TF-IDF of unigrams and bigrams, and logistic regression."""
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import LogisticRegression
        from sklearn.multiclass import OneVsRestClassifier
        from sklearn.pipeline import make_pipeline

        start = time.perf_counter()
        classifier: Any = LogisticRegression(C=10.0, max_iter=1000, random_state=self.config.seed)
        classifier = OneVsRestClassifier(classifier) if self.task.multi_label else classifier
        model = make_pipeline(TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True), classifier)
        model.fit([_joined(row) for row in self.train], _targets(self.task, self.train).numpy())
        seconds = time.perf_counter() - start
        shares = torch.from_numpy(model.predict_proba([_joined(row) for row in self.dev])).float()
        logits = torch.logit(shares, 1e-7) if self.task.multi_label else shares.clamp_min(1e-12).log()
        score = self.task.metrics(logits, _targets(self.task, self.dev))[self.metric]
        counted = model[0].idf_.nbytes + sum(one.coef_.nbytes for one in getattr(model[1], "estimators_", [model[1]]))
        texts = [" ".join(text) if isinstance(text, list) else text for text in storage.read_json(self.texts)]
        return {
            "score": score,
            "deviation": 0.0 if self.config.seeds > 1 else None,  # deterministic
            "train_seconds": seconds,
            "parameters": counted // model[0].idf_.itemsize,
            "disk_mb": counted / MB,
            "memory_mb": counted / MB,
            **times_of(model.predict_proba, texts),
        }

    def _pretrain(self, entry: LadderModel) -> tuple[str, float]:
        """The model folder of a pre-training run, and its training time in seconds."""
        config = self.config
        result = pretrain(
            PretrainConfig(
                corpus=self.corpus,
                output=self.run.path / "pretrained" / entry.name,
                tokenizer=self.tokenizer,
                steps=config.pretrain_steps,
                batch_tokens=config.pretrain_tokens,
                max_length=config.max_length,
                skip_bad_rows=config.skip_bad_rows,
                seed=config.seed,
                device=config.device,
                precision=config.precision,
                **entry.pretrain,  # type: ignore[arg-type]  # settings by name
            )
        )
        return str(result.model), _logged_seconds(result.output)

    def _static_vectors(self) -> tuple[str, float]:
        """The model folder of static word embeddings, and their training time in seconds."""
        folder, config = self.run.path / "pretrained" / "static", self.config
        clock = self.run.path / "pretrained" / "static.json"
        if not clock.exists():
            folder.parent.mkdir(exist_ok=True)
            start = time.perf_counter()
            train_static_vectors(
                StaticConfig(
                    self.corpus,
                    folder,
                    config.static_method,
                    size=config.hidden_size,
                    vocab_size=config.vocab_size,
                    seed=config.seed,
                    skip_bad_rows=config.skip_bad_rows,
                ),
                replace_folder=True,
            )
            storage.write_json(clock, {"seconds": time.perf_counter() - start})
        return str(folder), storage.read_json(clock)["seconds"]

    # -- shared ----------------------------------------------------------------------------------------------------

    def _finetuning(self, settings: dict[str, Any], name: str) -> FinetuneConfig:
        config = self.config
        return FinetuneConfig(
            config.data,
            config.output / "finetuned" / name,
            dev=config.dev,
            columns=config.columns,
            metric=config.metric,
            epochs=config.epochs,
            seeds=config.seeds,
            batch_size=config.batch_size,
            max_length=config.max_length,
            skip_bad_rows=config.skip_bad_rows,
            seed=config.seed,
            device=config.device,
            precision=config.precision,
            **settings,
        )

    def _corpus(self) -> tuple[str, ...]:
        if self.config.corpus:
            return self.config.corpus
        path = self.run.path / "texts.jsonl"
        if not path.exists():
            lines = (json.dumps({"text": _joined(row)}, ensure_ascii=False) for row in self.train)
            storage.write_text(path, "\n".join(lines) + "\n")
        return (str(path),)

    def _tokenizer(self) -> Path:
        path = self.run.path / "tokenizer"
        if not path.exists():
            note(f"Training the shared WordPiece tokenizer, at most {self.config.vocab_size:,} tokens.")
            Tokenizer.train(
                list(self.corpus), vocab_size=self.config.vocab_size, skip_bad_rows=self.config.skip_bad_rows
            ).save(path)
        return path


def _check_classifies(name: str) -> None:
    """Raise ModelFolderError for an unreadable model, InputError for one that cannot classify."""
    model, _ = load_model(name, None)
    if model.config.num_decoder_layers:
        raise InputError(f"{name} is an encoder-decoder, which cannot classify texts: remove its --model.")


def _joined(row: Row) -> str:
    return row.text if row.text_pair is None else f"{row.text} {row.text_pair}"


def _targets(task: Classification, rows: Sequence[Row]) -> torch.Tensor:
    """The targets of the task: int64 [rows], or float [rows, labels] for multi-label tasks."""
    return task.as_targets([task.target(row.label) for row in rows])


def _logged_seconds(folder: Path) -> float:
    """The logged training time of a run in seconds, summed over its seeds."""
    logs = [RunFolder(path.parent, {}) for path in folder.rglob("metrics.jsonl")]
    return float(sum(record.get("seconds", 0.0) for log in logs for record in log.records()))
