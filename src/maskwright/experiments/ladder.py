"""Compares models from bag of words to BERT on the same rows and budget, in one table.

Each model is pre-trained (if it needs that), fine-tuned over seeds, and measured in a separate process:
python -m maskwright.experiments.ladder FOLDER TEXTS DEVICE PRECISION THREADS prints one JSON object.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch

from ..core import storage
from ..core.errors import InputError, MissingExtraError
from ..core.memory import peak_memory, resident_memory
from ..core.progress import note, set_quiet, warn
from ..core.util import plural
from ..hub.folders import load_model, read_facts
from ..hub.published import short_names
from ..inference.predict import Predictor
from ..inference.ready import place
from ..report import Bar, Bars, Block, Command, Facts, Table
from ..report.numbers import duration, plus_minus
from ..tasks.base import task_of_model
from ..tasks.classification import Classification
from ..text.readers.tables import Row
from ..text.tokenizers.tokenizer import Tokenizer
from ..train.finetuning.config import FinetuneConfig
from ..train.finetuning.finetune import finetune, make_task, read_data
from ..train.pretraining.config import PretrainConfig, StaticConfig
from ..train.pretraining.pretrain import pretrain
from ..train.pretraining.static_embeddings import train_static_vectors
from ..train.run import RunFolder
from .config import LadderConfig
from .runner import Experiment, ExperimentResult, Part, Shown, run_experiment

COLUMNS = ("model", "score", "training", "pre-training", "latency", "texts/s", "parameters", "disk", "memory")
MEASURED_TEXTS = 256
SINGLE = 30  # texts for the latency, one at a time
LEAST_SECONDS = 0.5
MB = 1 << 20


@dataclass(frozen=True)
class LadderModel:
    """One model of the comparison.

    pretrain: settings of a PretrainConfig, None without pre-training; finetune: settings of a FinetuneConfig, None for
    the bag-of-words model.
    """

    name: str
    title: str
    about: str
    pretrain: Mapping[str, Any] | None = None
    finetune: Mapping[str, Any] | None = field(default_factory=dict)


def ladder_models(config: LadderConfig) -> list[LadderModel]:
    """The models of a recipe, the simplest first, and the given model folders last."""
    size = config.hidden_size
    recurrent = {"hidden_size": size, "num_hidden_layers": 2}
    heads = max(size // 64, 1) if size % max(size // 64, 1) == 0 else 1
    transformer = {
        "hidden_size": size,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": heads,
        "intermediate_size": 4 * size,
    }

    def scratch(preset: str, network: dict[str, Any], lr: float) -> dict[str, Any]:
        return {"preset": preset, "network": network, "lr": lr}

    def own(preset: str, objective: str, network: dict[str, Any], lr: float) -> dict[str, Any]:
        return {"preset": preset, "objective": objective, "model": network, "lr": lr}

    top = {"mix_layers": True, "top_layers": 1, "top_embedding_size": size}
    elmo = {"network": top, "freeze_encoder": True, "lr": 2e-3}
    rows: list[tuple[str, str, str, Any, Any]] = [
        ("words", "bag of words", "TF-IDF of unigrams and bigrams, logistic regression", None, None),
        ("static", "static embeddings", "mean-pooled word2vec embeddings, fine-tuned", None, {"lr": 5e-3}),
        ("lstm", "LSTM", "from scratch, last token", None, scratch("lstm-small", recurrent, 2e-3)),
        ("bilstm", "BiLSTM", "from scratch, mean pooling", None, scratch("bilstm-small", recurrent, 2e-3)),
        ("elmo", "ELMo features", "frozen bidirectional LM; a BiLSTM on a scalar mix of its layers and new embeddings",
         own("elmo-small", "bilm", recurrent, 2e-3), elmo),
        ("gpt", "GPT-style", "causal LM, pre-trained, fine-tuned", own("gpt2", "clm", transformer, 1e-3), {"lr": 2e-4}),
        ("bert-scratch", "BERT, scratch", "no pre-training", None, scratch("bert-mini", transformer, 2e-4)),
        ("bert", "BERT, own", "masked LM, pre-trained, fine-tuned", own("bert-mini", "mlm", transformer, 1e-3),
         {"lr": 2e-4}),
    ]  # fmt: skip
    rows = [row for row in rows if not config.only or row[0] in config.only]
    names = zip(short_names(config.models), config.models, strict=True)
    rows += [
        (f"given-{number}", name, f"{model}, fine-tuned", None, {"model": model, "lr": config.lr_given})
        for number, (name, model) in enumerate(names, 1)
    ]
    return [LadderModel(*row) for row in rows]


def ladder(config: LadderConfig, *, restart: bool = False) -> ExperimentResult:
    """Run `config`, or resume it; see `run_experiment`. Raises InputError for an encoder-decoder.

    The facts of its result: "metric"; "rows", for each model its name, title, score (mean and deviation over seeds),
    seconds of training and of pre-training, latency, texts per second, parameters, and megabytes on disk and in memory;
    "left_out", skipped models and why.
    """
    return run_experiment(Ladder, config, restart=restart)


class Ladder(Experiment):
    """Loads the data of a ladder, and trains and measures its models."""

    config: LadderConfig

    def __init__(self, config: LadderConfig, run: RunFolder) -> None:
        super().__init__(config, run)
        self.left_out: dict[str, str] = {}
        for name in config.models:  # before any work: given models come last
            if load_model(name, None)[0].config.num_decoder_layers:
                raise InputError(f"{name} is an encoder-decoder, which cannot classify texts: remove its --model.")
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
        self.corpus, self.tokenizer = config.corpus, run.path / "tokenizer"
        if not self.corpus:
            path = run.path / "texts.jsonl"
            if not path.exists():
                lines = (json.dumps({"text": joined(row)}, ensure_ascii=False) for row in self.train)
                storage.write_text(path, "\n".join(lines) + "\n")
            self.corpus = (str(path),)
        if not self.tokenizer.exists():
            note(f"Training the shared WordPiece tokenizer, at most {config.vocab_size:,} tokens.")
            how: dict[str, Any] = {"vocab_size": config.vocab_size, "skip_bad_rows": config.skip_bad_rows}
            Tokenizer.train(list(self.corpus), **how).save(self.tokenizer)

    def measure(self) -> dict[str, Any]:
        models = ladder_models(self.config)
        parts = [Part(one.name, f"{one.title} ({one.about})", partial(self._run, one)) for one in models]
        rows = list(self.run_parts(parts).values())
        return {"metric": self.metric, "rows": rows, "left_out": self.left_out, "dev_rows": len(self.dev)}

    def _run(self, entry: LadderModel) -> dict[str, Any] | None:
        about = {"name": entry.name, "title": entry.title, "about": entry.about, "pretrain_seconds": 0.0}
        if entry.finetune is None:
            return about | self._bag_of_words()
        settings = dict(entry.finetune)
        try:
            if entry.pretrain is not None:
                settings["model"], about["pretrain_seconds"] = self._pretrain(entry)
            elif entry.name == "static":
                settings["model"], about["pretrain_seconds"] = self._static_vectors()
            elif "preset" in settings:
                settings["tokenizer"] = self.tokenizer
            result = finetune(self._finetuning(settings, entry.name))
        except MissingExtraError as error:
            warn(f"{entry.title} is skipped: {error}")
            self.left_out[entry.title] = str(error)
            return None
        config = self.config
        return {
            **about,
            "score": result.mean[self.metric],
            "deviation": result.deviation[self.metric] if config.seeds > 1 else None,
            "train_seconds": logged_seconds(result.output) / config.seeds,
            "parameters": load_model(result.model)[0].num_parameters,
            "disk_mb": (result.model / "model.safetensors").stat().st_size / MB,
            **measured_apart(result.model, self.texts, config.device, "auto", torch.get_num_threads()),
        }

    def _bag_of_words(self) -> dict[str, Any]:
        """TF-IDF of unigrams and bigrams, and logistic regression."""

        def targets(rows: Sequence[Row]) -> torch.Tensor:
            return self.task.as_targets([self.task.target(row.label) for row in rows])

        start = time.perf_counter()
        model = word_counts(self.task.multi_label, C=10.0, random_state=self.config.seed)
        model.fit([joined(row) for row in self.train], targets(self.train).numpy())
        seconds = time.perf_counter() - start
        shares = torch.from_numpy(model.predict_proba([joined(row) for row in self.dev])).float()
        logits = torch.logit(shares, 1e-7) if self.task.multi_label else shares.clamp_min(1e-12).log()
        counted = model[0].idf_.nbytes + sum(one.coef_.nbytes for one in getattr(model[1], "estimators_", [model[1]]))
        texts = [" ".join(text) if isinstance(text, list) else text for text in storage.read_json(self.texts)]
        return {
            "score": self.task.metrics(logits, targets(self.dev))[self.metric],
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
        recipe = PretrainConfig(
            corpus=self.corpus,
            output=self.run.path / "pretrained" / entry.name,
            tokenizer=self.tokenizer,
            steps=config.pretrain_steps,
            batch_tokens=config.pretrain_tokens,
            **self._shared(),
            **entry.pretrain,  # type: ignore[arg-type]  # settings by name
        )
        result = pretrain(recipe)
        return str(result.model), logged_seconds(result.output)

    def _static_vectors(self) -> tuple[str, float]:
        """The model folder of static word embeddings, and their training time in seconds."""
        folder, config = self.run.path / "pretrained" / "static", self.config
        clock = self.run.path / "pretrained" / "static.json"
        if not clock.exists():
            folder.parent.mkdir(exist_ok=True)
            start = time.perf_counter()
            recipe = StaticConfig(
                self.corpus,
                folder,
                config.static_method,
                size=config.hidden_size,
                vocab_size=config.vocab_size,
                seed=config.seed,
                skip_bad_rows=config.skip_bad_rows,
            )
            train_static_vectors(recipe, replace_folder=True)
            storage.write_json(clock, {"seconds": time.perf_counter() - start})
        return str(folder), storage.read_json(clock)["seconds"]

    def _shared(self) -> dict[str, Any]:
        return {
            name: getattr(self.config, name) for name in ("max_length", "skip_bad_rows", "seed", "device", "precision")
        }

    def _finetuning(self, settings: dict[str, Any], name: str) -> FinetuneConfig:
        config = self.config
        same = ("dev", "columns", "metric", "epochs", "seeds", "batch_size")
        same_settings = {one: getattr(config, one) for one in same}
        output = config.output / "finetuned" / name
        return FinetuneConfig(config.data, output, **same_settings, **self._shared(), **settings)

    @classmethod
    def show(cls, recipe: Mapping[str, Any], facts: dict[str, Any]) -> Shown:
        rows, metric = facts["rows"], facts["metric"].replace("_", " ")
        best = max(range(len(rows)), key=lambda number: rows[number]["score"])
        over = f"mean and deviation over {recipe['seeds']} seeds" if recipe["seeds"] > 1 else "one seed"
        about = (
            f"{metric.capitalize()} on {facts['dev_rows']:,} dev examples, {over}; the best epoch of each is also "
            f"chosen on them. All models have the same budget: {plural(recipe['epochs'], 'epoch')} over the rows, and "
            f"{recipe['pretrain_steps']:,} steps of pre-training. Times on this machine: of one training, of its "
            "pre-training, and the median latency of a single text. Memory is the peak increase of a process that "
            "loads the model and predicts."
        )
        blocks: list[Block] = [
            Bars([Bar(row["title"], row["score"], _score(row)) for row in rows], title=f"Dev {metric}"),
            Facts({row["title"]: row["about"] for row in rows} | dict(facts["left_out"]), title="Descriptions"),
        ]
        folder = Path(recipe["output"]) / "finetuned" / rows[best]["name"] / "model"
        table = Table(
            COLUMNS, [_cells(row) for row in rows], title="Models", note=about, right=COLUMNS[1:], strong=[best]
        )
        steps = [Command.suggest("use the best", "predict", model=folder, texts="your text")] * folder.is_dir()
        return Shown(f"ladder on {recipe['data']}", [headline(rows, metric)], [table], blocks, steps)


def word_counts(multi_label: bool = False, **settings: Any) -> Any:
    """TF-IDF of unigrams and bigrams, and logistic regression with these settings."""
    from sklearn.feature_extraction.text import TfidfVectorizer  # not in the processes that are measured
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.pipeline import make_pipeline

    classifier: Any = LogisticRegression(max_iter=1000, **settings)
    classifier = OneVsRestClassifier(classifier) if multi_label else classifier
    return make_pipeline(TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True), classifier)


def headline(rows: Sequence[Mapping[str, Any]], metric: str) -> str:
    """The best model, and the simplest one that is as good within the deviations."""
    best = max(rows, key=lambda row: row["score"])

    def spread(row: Mapping[str, Any]) -> float:
        """The standard deviation of the difference of two means."""
        return float(((row["deviation"] or 0.0) ** 2 + (best["deviation"] or 0.0) ** 2) ** 0.5)

    close = next(row for row in rows if row["score"] >= best["score"] - spread(row))
    text = f"Best {metric.replace('_', ' ')}: {best['title']}, {_score(best)}."
    if close is best:
        return f"{text} No simpler model is within its deviation."
    return f"{text} The simplest model within its deviation is {close['title']}, {_score(close)}."


def _cells(row: Mapping[str, Any]) -> list[str]:
    """The cells of a model, in the order of COLUMNS."""
    return [
        row["title"],
        _score(row),
        duration(row["train_seconds"]),
        duration(row["pretrain_seconds"]) if row["pretrain_seconds"] else "",
        f"{row['latency_ms']:.2f} ms",
        f"{row['texts_per_second']:,.0f}",
        f"{row['parameters']:,}",
        f"{row['disk_mb']:.1f} MB",
        f"{row['memory_mb']:.0f} MB",
    ]


def _score(row: Mapping[str, Any]) -> str:
    return plus_minus(row["score"], row["deviation"])


def joined(row: Row) -> str:
    """A text, or a pair as one text."""
    return row.text if row.text_pair is None else f"{row.text} {row.text_pair}"


def logged_seconds(folder: Path) -> float:
    """The logged training time of a run in seconds, summed over its seeds."""
    logs = [RunFolder(path.parent, {}) for path in folder.rglob("metrics.jsonl")]
    return float(sum(record.get("seconds", 0.0) for log in logs for record in log.records()))


# -- latency, throughput and memory of a model, in a separate process --------------------------------------------------


def measured_apart(folder: Path, texts: Path, device: str, precision: str, threads: int) -> dict[str, float]:
    """Measure a model folder in a new process. texts: a file with a JSON list. Raises InputError if that fails.

    Returns latency_ms (median, one text at a time), texts_per_second (all in one call), memory_mb (peak memory minus
    the memory before loading the model).
    """
    command = [sys.executable, "-m", "maskwright.experiments.ladder", str(folder), str(texts), device, precision]
    found = subprocess.run([*command, str(threads)], capture_output=True, text=True, check=False)
    if found.returncode:
        output = found.stderr.strip().splitlines()[-1:] or ["no error output"]
        raise InputError(f"{folder} could not be measured: {output[0]}")
    result: dict[str, float] = json.loads(found.stdout)
    return result


def times_of(answer: Callable[[Sequence[Any]], Any], texts: Sequence[Any]) -> dict[str, float]:
    """latency_ms and texts_per_second of a prediction function."""
    single = list(texts[:SINGLE])
    answer(single[:2])
    each = []
    for text in single:
        start = time.perf_counter()
        answer([text])
        each.append(time.perf_counter() - start)
    rounds, start = 0, time.perf_counter()
    while (passed := time.perf_counter() - start) < LEAST_SECONDS:
        answer(texts)
        rounds += 1
    passed = time.perf_counter() - start
    return {"latency_ms": 1e3 * statistics.median(each), "texts_per_second": rounds * len(texts) / passed}


def _main(folder: str, texts: str, device: str, precision: str, threads: str) -> None:
    set_quiet(True)
    torch.set_num_threads(int(threads))
    rows = [tuple(text) if isinstance(text, list) else text for text in storage.read_json(Path(texts))]
    before = resident_memory()
    model, facts = place(load_model(folder)[0], device, precision), read_facts(folder)
    predictor = Predictor(model, task_of_model(model, facts))
    found = times_of(lambda part: predictor.predict(list(part)), rows)
    print(json.dumps({**found, "memory_mb": (peak_memory() - before) / MB}))


if __name__ == "__main__":
    _main(*sys.argv[1:])
