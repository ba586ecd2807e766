"""Compares models from bag of words to BERT on the same rows and budget, in one table.

Each model is pre-trained (if it needs that), fine-tuned over seeds, and measured in a separate process. Finished models
are kept, so rerunning the same command resumes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from ...core import storage
from ...core.config import command_line
from ...core.errors import InputError, MissingExtraError
from ...core.progress import note, warn
from ...hub.folders import load_model
from ...hub.published import short_names
from ...models.device import resolve_device, resolve_precision
from ...report import Bar, Bars, Block, Command, Facts, NextSteps, Report, RunMetadata, Scatter, Table, write_report
from ...report.numbers import plus_minus
from ...tasks.classification import Classification
from ...text.readers.tables import Row
from ...text.tokenizers.tokenizer import Tokenizer
from ...train.finetuning.config import FinetuneConfig
from ...train.finetuning.finetune import finetune, make_task
from ...train.finetuning.run_data import read_data
from ...train.pretraining.config import PretrainConfig
from ...train.pretraining.pretrain import pretrain
from ...train.pretraining.static_config import StaticConfig
from ...train.pretraining.static_embeddings import train_static_vectors
from ...train.run import RunFolder, open_run_of
from .config import LadderConfig
from .measure import measured_apart, times_of

# -- The models of a ladder, with the recipes of their pre-training and fine-tuning ----------------------------------


@dataclass(frozen=True)
class LadderModel:
    """One model of the comparison.

    name, title: in the results; about: a short description; pretrain: settings of a PretrainConfig, None without
    pre-training; finetune: settings of a FinetuneConfig, None for the bag-of-words model.
    """

    name: str
    title: str
    about: str
    pretrain: Mapping[str, Any] | None = None
    finetune: Mapping[str, Any] | None = field(default_factory=dict)


def ladder_models(config: LadderConfig) -> list[LadderModel]:
    """The models of a recipe, the simplest first, and the given model folders last."""
    size, layers = config.hidden_size, config.num_layers
    recurrent = {"hidden_size": size, "num_hidden_layers": 2}
    heads = max(size // 64, 1) if size % max(size // 64, 1) == 0 else 1
    transformer = {
        "hidden_size": size,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": 4 * size,
    }
    top = {"mix_layers": True, "top_layers": 1, "top_embedding_size": size}
    table = {
        "words": LadderModel(
            "words", "bag of words", "TF-IDF of unigrams and bigrams, logistic regression", finetune=None
        ),
        "static": LadderModel(
            "static", "static embeddings", "mean-pooled word2vec embeddings, fine-tuned", None, {"lr": 5e-3}
        ),
        "lstm": LadderModel("lstm", "LSTM", "from scratch, last token", None, _scratch("lstm-small", recurrent, 2e-3)),
        "bilstm": LadderModel(
            "bilstm", "BiLSTM", "from scratch, mean pooling", None, _scratch("bilstm-small", recurrent, 2e-3)
        ),
        "elmo": LadderModel(
            "elmo",
            "ELMo features",
            "frozen bidirectional LM; a BiLSTM on a scalar mix of its layers and new embeddings",
            {"preset": "elmo-small", "objective": "bilm", "model": recurrent, "lr": 2e-3},
            {"network": top, "freeze_encoder": True, "lr": 2e-3},
        ),
        "gpt": LadderModel(
            "gpt",
            "GPT-style",
            "causal LM, pre-trained, fine-tuned",
            {"preset": "gpt2", "objective": "clm", "model": transformer, "lr": 1e-3},
            {"lr": 2e-4},
        ),
        "bert-scratch": LadderModel(
            "bert-scratch", "BERT, scratch", "no pre-training", None, _scratch("bert-mini", transformer, 2e-4)
        ),
        "bert": LadderModel(
            "bert",
            "BERT, own",
            "masked LM, pre-trained, fine-tuned",
            {"preset": "bert-mini", "objective": "mlm", "model": transformer, "lr": 1e-3},
            {"lr": 2e-4},
        ),
    }
    given = [
        LadderModel(f"given-{number}", name, f"{model}, fine-tuned", None, {"model": model, "lr": config.lr_given})
        for number, (name, model) in enumerate(zip(short_names(config.models), config.models, strict=True), 1)
    ]
    return [table[name] for name in config.ordered_models] + given


def _scratch(preset: str, network: Mapping[str, Any], lr: float) -> dict[str, Any]:
    return {"preset": preset, "network": dict(network), "lr": lr}


# -- The HTML report of a ladder: a table of scores and costs of each model, and a plot of score over latency --------


COLUMNS = ("model", "score", "training", "pre-training", "latency", "texts/s", "parameters", "disk", "memory")


def write_ladder_report(run: RunFolder, result: Mapping[str, Any]) -> None:
    """Write report.html of a run."""
    rows, metric = result["rows"], result["metric"].replace("_", " ")
    best = max(range(len(rows)), key=lambda number: rows[number]["score"])
    seeds = run.recipe["seeds"]
    over = f"mean and deviation over {seeds} seeds" if seeds > 1 else "one seed"
    note = (
        f"{metric.capitalize()} on {result['dev_rows']:,} dev examples, {over}; the best epoch of each is also "
        f"chosen on them. All models have the same budget: {run.recipe['epochs']} epochs over the rows, and "
        f"{run.recipe['pretrain_steps']:,} steps of pre-training. Times on this machine: seconds of one training, of "
        "its pre-training, and the median latency of a single text. Memory is the peak increase of a process that "
        "loads the model and predicts."
    )
    blocks: list[Block] = [
        Table(list(COLUMNS), [cells(row) for row in rows], title="Models", strong=[best], note=note),
        Bars([Bar(row["title"], row["score"], _score(row)) for row in rows], title=f"Dev {metric}"),
        _plot(rows, metric),
        Facts({row["title"]: row["about"] for row in rows} | dict(result["left_out"]), title="Descriptions"),
        RunMetadata(
            command_line(LadderConfig, run.recipe), {key: str(value) for key, value in run.recipe.items()}, run.facts()
        ),
    ]
    folder = run.path / "finetuned" / rows[best]["name"] / "model"
    if folder.is_dir():
        blocks.append(NextSteps([Command.suggest("use the best", "predict", model=folder, texts="your text")]))
    write_report(
        run.path / "report.html",
        Report(f"ladder on {run.recipe['data']}", headline(rows, metric), None, blocks, run.facts()["started"]),
    )


def headline(rows: Sequence[Mapping[str, Any]], metric: str) -> str:
    """The best model, and the simplest one that is as good within the deviations."""
    best = max(rows, key=lambda row: row["score"])
    close = next(row for row in rows if row["score"] >= best["score"] - _spread(row, best))
    text = f"Best {metric.replace('_', ' ')}: {best['title']}, {_score(best)}."
    if close is best:
        return f"{text} No simpler model is within its deviation."
    return f"{text} The simplest model within its deviation is {close['title']}, {_score(close)}."


def cells(row: Mapping[str, Any]) -> list[str]:
    """The cells of a model, in the order of COLUMNS."""
    return [
        row["title"],
        _score(row),
        _seconds(row["train_seconds"]),
        _seconds(row["pretrain_seconds"]) if row["pretrain_seconds"] else "",
        f"{row['latency_ms']:.2f} ms",
        f"{row['texts_per_second']:,.0f}",
        f"{row['parameters']:,}",
        f"{row['disk_mb']:.1f} MB",
        f"{row['memory_mb']:.0f} MB",
    ]


def _plot(rows: Sequence[Mapping[str, Any]], metric: str) -> Scatter:
    """Score over latency."""
    places = [(float(row["latency_ms"]), float(row["score"])) for row in rows]
    texts = [f"{row['title']}: {_score(row)}, {row['latency_ms']:.2f} ms" for row in rows]
    names = [f"{row['title']}: {_score(row)} in {row['latency_ms']:.2f} ms" for row in rows]
    caption = f"Dev {metric} (vertical) over the latency of one text (horizontal)"
    return Scatter(places, list(range(len(rows))), texts, names, caption, title="Score over latency")


def _spread(row: Mapping[str, Any], best: Mapping[str, Any]) -> float:
    """The standard deviation of the difference of two means."""
    return float(((row["deviation"] or 0.0) ** 2 + (best["deviation"] or 0.0) ** 2) ** 0.5)


def _score(row: Mapping[str, Any]) -> str:
    return plus_minus(row["score"], row["deviation"])


def _seconds(value: float) -> str:
    return f"{value / 60:.1f} min" if value >= 120 else f"{value:.1f} s"


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
        data = read_data(recipe)
        task = make_task(recipe, data)
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
