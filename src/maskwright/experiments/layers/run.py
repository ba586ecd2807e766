"""Layer-wise probing: which layers of a frozen encoder give the best features (Devlin et al. 2019, section 5.3).

A probe is trained on each choice of layers, with equal steps and seeds, and compared with the scalar mix of all layers
(Peters et al. 2018) and the fine-tuned model. Finished probes are kept, so rerunning the same command resumes.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from ...core import storage
from ...core.config import command_line
from ...core.progress import note
from ...data.batch import Batch
from ...hub.download import find_folder
from ...hub.folders import load_model
from ...inference.layer_features import Features, feature_bytes, make_features
from ...inference.layers import NAMED_LAYERS, LayerChoice, choose_layers
from ...inference.ready import place
from ...models.device import DTYPES, resolve_device, resolve_precision
from ...models.model import Model, tokenizer_of
from ...models.probes import TokenProbe
from ...nn.layers import ScalarMix
from ...report import (
    Bar,
    Bars,
    Block,
    Chart,
    Command,
    Comparison,
    Curves,
    Facts,
    Figure,
    Health,
    KeyFigures,
    NextSteps,
    Report,
    RunMetadata,
    Score,
    Series,
    System,
    Table,
    write_report,
)
from ...report.content import Level
from ...report.layer_mix import mixture_bars
from ...report.numbers import duration, file_size, percent, plus_minus
from ...tasks.evaluation.published import published_table
from ...tasks.tagging.examples import TaggedExamples
from ...tasks.tagging.task import Tagging
from ...train.finetuning.finetune import FinetuningSetup, finetune
from ...train.finetuning.job import FinetuneJob, MemoryBestModelSaver
from ...train.finetuning.seeds import epoch_settings
from ...train.loop import train
from ...train.run import RunFolder, open_run_of
from .config import TASK, LayerLabConfig

if TYPE_CHECKING:
    from ...models.model import Model

# -- A probe on frozen features, with the interface of a tagging model -----------------------------------------------
#
# `input_ids` are row indices of the features (words, not tokens), so the probe is trained and scored by the code that
# fine-tunes a tagger.


MIX = "learned-mix"
NEEDS = 4  # minimum number of layers for the names with "-4"
SCALE_ROWS = 8192  # words per block when the scale of features is measured


@dataclass(frozen=True)
class Combination:
    """A row of the results. choice: its layers, None for the scalar mix of all layers."""

    name: str
    choice: LayerChoice | None

    def size(self, hidden_size: int) -> int:
        """Number of dimensions of a word embedding."""
        return hidden_size if self.choice is None else self.choice.size(hidden_size)


def combinations(num_layers: int, each_layer: bool = False) -> tuple[list[Combination], list[str]]:
    """The rows of an experiment, and the names that need more than `num_layers` layers.

    The named choices, the scalar mix, and with `each_layer` every other single layer.
    """
    names = [name for name in NAMED_LAYERS if num_layers >= NEEDS or not name.endswith("-4")]
    rows = [Combination(name, choose_layers(name, num_layers)) for name in names]
    rows.append(Combination(MIX, None))
    if each_layer:
        known = {row.choice.numbers for row in rows if row.choice is not None and len(row.choice.numbers) == 1}
        rows += [
            Combination(f"layer-{number}", LayerChoice((number,), "concat"))
            for number in range(num_layers + 1)
            if (number,) not in known
        ]
    return rows, [name for name in NAMED_LAYERS if name not in names]


class FeatureProbe(nn.Module):
    """A probe with its features. scale: factor of the features; see `feature_scale`."""

    def __init__(self, features: Features, choice: LayerChoice | None, probe: TokenProbe, scale: float = 1.0) -> None:
        super().__init__()
        self.features, self.choice, self.scale = features, choice, scale
        self.mix = ScalarMix(len(features.layers)) if choice is None else None
        self.head = probe

    def logits(self, batch: Batch) -> Tensor:
        """batch: sentences of words; `input_ids` are rows of the features. Returns float32 [words, labels]."""
        device = self.head.classifier.weight.device
        vectors = self.vectors(batch.input_ids.cpu(), device) * self.scale
        logits: Tensor = self.head(vectors, batch.lengths)
        return logits

    def vectors(self, rows: Tensor, device: torch.device | str = "cpu") -> Tensor:
        """rows: int64 [words]. Returns float32 [words, size]."""
        if self.mix is None:
            assert self.choice is not None
            return self.features.chosen(rows, self.choice).to(device)
        layers = self.features.of_layers(rows, range(len(self.features.layers)))
        mixed: Tensor = self.mix([layer.to(device) for layer in layers])
        return mixed

    def mix_facts(self) -> dict[str, Any] | None:
        """{"shares": weight of each layer from 0, "scale"} of a scalar mix; None for others."""
        if self.mix is None:
            return None
        return {"shares": self.mix.shares().tolist(), "scale": self.mix.scale.item()}


@torch.inference_mode()
def feature_scale(features: Features, choice: LayerChoice | None, num_train_words: int) -> float:
    """The factor that gives the features of the training words a mean square of 1.

    A sum of several layers is larger than one layer, which acts like a higher learning rate; the scale makes all rows
    comparable. The scalar mix is measured at its initialization, the mean of the layers.
    """
    reader = FeatureProbe(features, choice, TokenProbe(1, 2))
    total = torch.zeros((), dtype=torch.float64)
    count = 0
    for start in range(0, num_train_words, SCALE_ROWS):
        vectors = reader.vectors(torch.arange(start, min(start + SCALE_ROWS, num_train_words)))
        total += vectors.double().square().sum()
        count += vectors.numel()
    return float((total / count).rsqrt()) if total > 0 else 1.0


def word_examples(examples: TaggedExamples, first_row: int) -> TaggedExamples:
    """The same sentences with row indices of the features, starting at `first_row`."""
    own = [np.arange(start, end) for start, end in pairwise(examples.starts.tolist())]
    return replace(
        examples,
        input_ids=[(words + first_row).astype(np.int32) for words in own],
        places=[np.arange(len(words)) for words in own],
        words=own,
    )


class ProbeJob(FinetuneJob):
    """The training job of one probe. history: step, dev loss and dev score of each epoch."""

    def __init__(
        self,
        probe: FeatureProbe,
        task: Tagging,
        train: TaggedExamples,
        dev: TaggedExamples,
        config: LayerLabConfig,
        seed: int,
        device: torch.device,
    ) -> None:
        # Tagging and its job need only `logits` of a batch, a head and weights, which a probe has.
        model = cast("Model", probe)
        super().__init__(
            model, task, train, dev, MemoryBestModelSaver(), batch_size=config.batch_size, seed=seed, device=device
        )
        self.history: list[tuple[int, float, float]] = []

    def evaluate(self, step: int) -> dict[str, float]:
        """Score the dev examples; store the weights if they are the best so far."""
        scores = super().evaluate(step)
        self.history.append((step, scores["loss"], scores[self.task.main_metric]))
        return scores


def make_probe(
    features: Features, combination: Combination, scale: float, config: LayerLabConfig, num_labels: int, seed: int
) -> FeatureProbe:
    """The probe of a row, initialized from `seed`."""
    probe = TokenProbe(
        combination.size(features.hidden_size),
        num_labels,
        config.probe,
        hidden_size=config.probe_size,
        num_layers=config.probe_layers,
        dropout_rate=config.dropout,
        crf=config.crf,
        seed=seed,
    )
    return FeatureProbe(features, combination.choice, probe, scale)


# -- The HTML report of layer-wise probing: the choices of layers, the fine-tuned model, the scalar mix, the order


PROBES = {"linear": "a linear layer", "bilstm": "a BiLSTM"}
PUBLISHED_NOTE = (
    "Published: Devlin et al. 2019, table 7: BERT-base on all of CoNLL-2003 with a two-layer BiLSTM of size 768. Model "
    "and training differ, so only the order is comparable."
)


def write_layer_lab_report(run: RunFolder, result: Mapping[str, Any]) -> None:
    """Write report.html of a run."""
    metric = result["main_metric"]
    words = metric.replace("_", " ")
    rows = result["rows"]
    best = max(rows, key=lambda row: row["mean"][metric])
    recipe = run.recipe
    headline = (
        f"On frozen features {PROBES[recipe['probe']]} is best with {best['name']}: dev {words} {_shown(best, metric)}."
    )
    tuned = result["finetuned"]
    shown = rows if tuned is None else [*rows, tuned]
    if tuned is not None:
        headline += f" The fine-tuned model gets {_shown(tuned, metric)}."
    blocks: list[Block] = [
        KeyFigures(_figures(rows, tuned, metric, result["order"])),
        _comparison(rows, tuned, metric, result["published"]),
        Bars(
            [Bar(row["name"], row["mean"][metric], _shown(row, metric)) for row in shown],
            title=f"Dev {words} by layers",
            note=f"Mean ± deviation over {recipe['seeds']} seeds; bars begin at 0.",
        ),
        _order(result["order"]),
        *_mix(rows),
        _curves(rows, result["histories"], metric, result["num_layers"]),
        _sizes(shown),
        Facts({**result["data"], "steps of each probe": result["steps"]}, title="The data", note=_data_note(result)),
        RunMetadata(
            command_line(LayerLabConfig, recipe), {key: str(value) for key, value in recipe.items()}, run.facts()
        ),
        NextSteps(next_steps(recipe, rows, tuned, metric)),
    ]
    report = Report(f"layers of {recipe['model']}", headline, _health(result), blocks, run.facts()["started"])
    write_report(run.path / "report.html", report)


def order_sentences(order: Mapping[str, Any]) -> list[str]:
    """Each step of the published order as a sentence: whether it holds, and the difference."""
    return [
        f"{step['higher']} {'is at least' if step['holds'] else 'is below'} {step['lower']}: "
        f"{_gap(step['difference'], step['deviation'])}"
        for step in order["steps"]
    ]


def order_verdict(order: Mapping[str, Any]) -> str:
    """The published order as one sentence."""
    if order["holds"] is None:
        return "The published order cannot be checked: the model has too few layers."
    names = [order["steps"][0]["higher"], *(step["lower"] for step in order["steps"])]
    wrong = [step for step in order["steps"] if not step["holds"]]
    verdict = "holds" if not wrong else "does not hold"
    return f"The published order {' >= '.join(names)} {verdict} here."


def next_steps(recipe: Mapping[str, Any], rows: Sequence[Any], tuned: Any, metric: str) -> list[Command]:
    """Commands that use the best layers. The scalar mix belongs to its probe, so the best other row is exported."""
    best = max((row for row in rows if row["name"] != MIX), key=lambda row: row["mean"][metric])
    layers = str(best["name"]).removeprefix("layer-")
    model = recipe["model"]
    files = {"input": "texts.txt", "output": "features.npy"}
    features = {"layers": layers, "pooling": "none", "words": True}
    steps = [Command.suggest("write these features for your texts", "embed", model=model, **files, **features)]
    if tuned is None:
        labeled = {name: recipe[name] for name in ("train", "dev", "columns") if name in recipe}
        steps.append(
            Command.suggest(
                "train the whole model instead", "finetune", task=TASK, model=model, output="runs/tagger", **labeled
            )
        )
    else:
        tagger = f"{recipe['output']}/finetuned/model"
        about = "score the fine-tuned model on test rows"
        steps.append(Command.suggest(about, "evaluate", model=tagger, file="test.conll"))
    return steps


def _shown(row: Mapping[str, Any], metric: str) -> str:
    return plus_minus(row["mean"][metric], row["deviation"][metric] if len(row["runs"]) > 1 else None)


def _gap(difference: float, deviation: float | None) -> str:
    text = f"{difference:+.3f}".replace("-", "−")
    return text if deviation is None else f"{text} ± {deviation:.3f}"


def _figures(rows: Sequence[Any], tuned: Any, metric: str, order: Mapping[str, Any]) -> list[Figure]:
    by_name = {row["name"]: row for row in rows}
    best = max(rows, key=lambda row: row["mean"][metric])
    figures = [Figure("Best frozen", _shown(best, metric), note=best["name"])]
    if tuned is not None:
        figures.append(Figure("Fine-tuned", _shown(tuned, metric), note="the whole model"))
    figures.append(Figure("Embeddings", _shown(by_name["embeddings"], metric), note="before the first layer"))
    steps = order["steps"]
    held = sum(step["holds"] for step in steps)
    if steps:
        figures.append(Figure("Published order", f"{held} of {len(steps)}", note="steps that hold here"))
    return figures


def _health(result: Mapping[str, Any]) -> Health:
    reasons = [order_verdict(result["order"]), *order_sentences(result["order"])]
    level: Level = "good" if result["order"]["holds"] else "watch"
    if result["left_out"]:
        reasons.append(f"Skipped, because the model has too few layers: {', '.join(result['left_out'])}.")
    if result["dev_from_train"]:
        level = "watch"
        reasons.append("The dev examples are held out from the training file; a separate --dev file is more reliable.")
    return Health(level, reasons, "As published" if level == "good" else "")


def _comparison(rows: Sequence[Any], tuned: Any, metric: str, published: Mapping[str, float]) -> Comparison:
    def score(row: Mapping[str, Any]) -> Score:
        return Score(row["mean"][metric], row["deviation"][metric] if len(row["runs"]) > 1 else None, row["runs"])

    systems = [System(row["name"], {metric: score(row)}, seeds=len(row["runs"])) for row in rows]
    if tuned is not None:
        systems.append(System(tuned["name"], {metric: score(tuned)}, seeds=len(tuned["runs"]), note="not frozen"))
    systems += [System(name, {metric: value}, source="published") for name, value in published.items()]
    note = "The best epoch of each seed is chosen on the dev examples, for probes and for the fine-tuned model."
    return Comparison(systems, title="Frozen and fine-tuned", note=f"{note} {PUBLISHED_NOTE}" if published else note)


def _order(order: Mapping[str, Any]) -> Table:
    cells = [
        (step["higher"], step["lower"], _gap(step["difference"], step["deviation"]), "yes" if step["holds"] else "no")
        for step in order["steps"]
    ]
    return Table(
        ("better as published", "than", "difference here", "holds"),
        cells,
        title="Does the published order hold?",
        note=f"{order_verdict(order)} Differences are paired by seed.",
    )


def _mix(rows: Sequence[Any]) -> list[Block]:
    """The layer weights of the scalar mix."""
    mix = next(row["mix"] for row in rows if row["name"] == MIX)
    labels = ["embeddings", *(f"layer {number}" for number in range(1, len(mix["shares"])))]
    each = list(zip(*mix["each"], strict=True))
    texts = [
        f"{percent(share)} ({percent(min(seeds))} to {percent(max(seeds))})"
        for share, seeds in zip(mix["shares"], each, strict=True)
    ]
    return [mixture_bars(labels, mix["shares"], texts, mix["scale"], "mean and range over seeds; ")]


def _curves(rows: Sequence[Any], histories: Mapping[str, Any], metric: str, num_layers: int) -> Curves:
    words = metric.replace("_", " ")
    lines = [
        Series(name, [step for step, _, _ in seed], [score for _, _, score in seed])
        for name, seeds in histories.items()
        for seed in seeds
        if not name.startswith("layer-")
    ]
    charts = [Chart(f"Dev {words} during training", lines)]
    by_number = {"embeddings": 0, "second-to-last": num_layers - 1, "last": num_layers}
    by_number |= {f"layer-{number}": number for number in range(num_layers + 1)}
    single = sorted(
        ((by_number[row["name"]], row) for row in rows if row["name"] in by_number), key=lambda pair: pair[0]
    )
    if len(single) > 3 or num_layers < 3:
        numbers = [number for number, _ in single]
        depth = [Series("frozen", numbers, runs) for runs in zip(*(row["runs"] for _, row in single), strict=True)]
        charts.append(Chart(f"Dev {words} by single layer", depth, x_label="layer"))
    return Curves(charts)


def _sizes(rows: Sequence[Any]) -> Table:
    cells = [(row["name"], row["size"], row["parameters"]) for row in rows]
    return Table(
        ("features", "dimensions", "trainable parameters"),
        cells,
        title="Sizes of the probes",
        note="More dimensions make a larger probe: concat-last-4 has the most trainable parameters.",
    )


def _data_note(result: Mapping[str, Any]) -> str:
    return f"Features of all layers and words: {file_size(result['feature_bytes'])}; computed once for all probes."


ORDER = ("concat-last-4", "sum-last-4", "second-to-last", "embeddings")  # as published, best first
GIGABYTE = 1e9


@dataclass(frozen=True)
class LabRow:
    """Results of one choice of layers: mean and deviation of the dev metrics over seeds; runs: main metric per seed.

    size: dimensions of a word embedding; parameters: of the probe; mix: mean layer weights and scale of the scalar mix.
    """

    name: str
    size: int
    parameters: int
    mean: dict[str, float]
    deviation: dict[str, float]
    runs: list[float]
    best_steps: list[int]
    mix: dict[str, Any] | None = None


@dataclass(frozen=True)
class LayerLabResult:
    """Paths and results of an experiment.

    rows: the choices of layers; finetuned: the row of the fine-tuned model, or None; order: whether the published order
    holds, and each of its steps; published: name -> published score, as a fraction; left_out: names that need more
    layers.
    """

    output: Path
    main_metric: str
    rows: tuple[LabRow, ...]
    finetuned: LabRow | None
    order: dict[str, Any]
    published: dict[str, float]
    left_out: tuple[str, ...]
    already_finished: bool = False

    @property
    def report(self) -> Path:
        """The HTML report."""
        return self.output / "report.html"


def layer_lab(config: LayerLabConfig, *, restart: bool = False) -> LayerLabResult:
    """Run `config`, or resume it; a finished run is returned unchanged.

    Raises RunError when the folder contains another run, RowErrors for bad rows, ModelFolderError for an unreadable
    model.
    """
    device = resolve_device(config.device)
    config = config.resolved(str(device), resolve_precision(config.precision, device, training=True))
    with open_run_of(config, restart=restart) as run:
        if run.result is not None:
            return _result(run, run.result, already_finished=True)
        lab = Lab(config, run, device)
        run.check_inputs()
        try:
            rows = lab.measure()
            tuned = lab.fine_tuned() if config.also_finetune else None
        except KeyboardInterrupt:
            note("Finished probes are kept. Rerun the same command to resume.")
            raise
        result = lab.conclude(rows, tuned)
        storage.remove_folder(lab.feature_folder)  # large, and reproducible
        write_layer_lab_report(run, result)
        run.finish(result)
        return _result(run, result)


class Lab:
    """Loads the data and the frozen encoder of a run, and trains its probes."""

    def __init__(self, config: LayerLabConfig, run: RunFolder, device: torch.device) -> None:
        self.config, self.run, self.device = config, run, device
        bench = FinetuningSetup(config.probing, device)  # checks and reports the rows
        assert isinstance(bench.task, Tagging)
        assert isinstance(bench.train, TaggedExamples) and isinstance(bench.dev, TaggedExamples)
        self.task, self.parts = bench.task, (bench.train, bench.dev)
        self.data = bench.data
        self.encoder = open_encoder(config)
        num_layers = self.encoder.config.num_hidden_layers
        self.combinations, self.left_out = combinations(num_layers, config.each_layer)
        if self.left_out:
            note(f"The model has {num_layers} layers, so {' and '.join(self.left_out)} are skipped.")
        self.train = word_examples(bench.train, 0)
        self.dev = word_examples(bench.dev, bench.train.num_words)
        self.feature_folder = run.path / "features"

    def measure(self) -> list[LabRow]:
        """Train and score the probes of every choice of layers and every seed."""
        total = len(self.combinations) * self.config.seeds
        kept = {(row.name, seed): self._kept(row.name, seed) for row in self.combinations for seed in self._seeds()}
        missing = [key for key, found in kept.items() if found is None]
        if missing and len(missing) < total:
            note(f"{total - len(missing):,} of {total:,} probes are finished; resuming with the others.")
        features = self._features() if missing else None
        begun, started = total - len(missing), time.monotonic()
        done = begun
        for row in self.combinations:
            seeds = [seed for seed in self._seeds() if kept[row.name, seed] is None]
            if not seeds or features is None:
                continue
            scale = feature_scale(features, row.choice, self.train.num_words)
            for seed in seeds:
                found = self._train(features, row, scale, seed, f"{done + 1}/{total}")
                kept[row.name, seed] = found
                done += 1
                self.run.log({"step": done, "name": row.name, "seed": seed, **found["metrics"]})
                left = (time.monotonic() - started) / (done - begun) * (total - done)
                rest = f"; {duration(left)} left" if done < total else ""
                score = found["metrics"][self.task.main_metric]
                note(f"{done:,}/{total:,} {row.name}, seed {seed}: {self.task.main_metric} {score:.4f}{rest}")
        return [self._row(row, [kept[row.name, seed] or {} for seed in self._seeds()]) for row in self.combinations]

    def fine_tuned(self) -> LabRow:
        """Fine-tune the whole model on the same rows, with the same seeds, in a separate run folder."""
        result = finetune(self.config.finetuning)
        hidden, tags = self.encoder.config.hidden_size, self.task.num_labels
        head = (hidden + 1) * tags + (tags * (tags + 2) if self.config.crf else 0)
        named = self.encoder.encoder.named_parameters()
        encoder = sum(parameter.numel() for name, parameter in named if not name.startswith("pooler."))
        return LabRow(
            "fine-tuned",
            hidden,
            encoder + head,
            result.mean,
            result.deviation,
            [seed[result.main_metric] for seed in result.seeds],
            [seed["best_step"] for seed in result.seeds],
        )

    def conclude(self, rows: Sequence[LabRow], tuned: LabRow | None) -> dict[str, Any]:
        """The result of the run."""
        config, encoder = self.config, self.encoder.config
        is_entities = self.task.scheme is not None
        dtype = DTYPES[config.feature_dtype]
        return {
            "main_metric": self.task.main_metric,
            "rows": [asdict(row) for row in rows],
            "finetuned": None if tuned is None else asdict(tuned),
            "order": published_order(rows),
            "published": published_scores() if is_entities else {},
            "left_out": self.left_out,
            "histories": {row.name: self._histories(row.name) for row in rows},
            "steps": config.epochs * -(-len(self.train) // config.batch_size),
            "data": {
                "training sentences": self.train.num_rows,
                "training words": self.train.num_words,
                "dev sentences": self.dev.num_rows,
                "dev words": self.dev.num_words,
                "tags": self.task.num_labels,
                "bad rows left out": self.data.skipped,
            },
            "dev_from_train": self.data.from_train,
            "num_layers": encoder.num_hidden_layers,
            "feature_bytes": feature_bytes(self.encoder, self.train.num_words + self.dev.num_words, dtype),
        }

    def _features(self) -> Features:
        config = self.config
        limit = config.feature_memory * GIGABYTE
        return make_features(self.encoder, self.parts, self.feature_folder, config.feature_dtype, limit)

    def _seeds(self) -> range:
        return range(self.config.seed, self.config.seed + self.config.seeds)

    def _path(self, name: str, seed: int) -> Path:
        return self.run.path / "probes" / f"{name}-seed-{seed}.json"

    def _kept(self, name: str, seed: int) -> dict[str, Any] | None:
        """The result of a finished probe, None for an unfinished one."""
        path = self._path(name, seed)
        found: dict[str, Any] | None = storage.read_json(path) if path.exists() else None
        return found

    def _histories(self, name: str) -> list[list[Any]]:
        return [(self._kept(name, seed) or {})["history"] for seed in self._seeds()]

    def _train(
        self, features: Features, row: Combination, scale: float, seed: int, place_in_run: str
    ) -> dict[str, Any]:
        """Train one probe and write its result."""
        config, task = self.config, self.task
        probe = make_probe(features, row, scale, config, task.num_labels, seed).to(self.device)
        job = ProbeJob(probe, task, self.train, self.dev, config, seed, self.device)
        task.init_from_counts(job.model, self.train)
        steps = job.steps_per_epoch
        settings = replace(epoch_settings(config.probing, steps, seed), log_every=max(steps, 1))
        train(job, settings, name=f"probe {place_in_run}: {row.name}, seed {seed}")
        job.conclude()
        found = {
            "metrics": job.best["metrics"],
            "best_step": job.best["step"],
            "parameters": sum(parameter.numel() for parameter in probe.parameters()),
            "scale": scale,
            "mix": probe.mix_facts(),
            "history": job.history,
        }
        storage.write_json(self._path(row.name, seed), found)
        return found

    def _row(self, row: Combination, found: Sequence[dict[str, Any]]) -> LabRow:
        names = list(found[0]["metrics"])
        table = np.array([[one["metrics"][name] for name in names] for one in found])  # [seeds, metrics]
        deviation = table.std(axis=0, ddof=1) if len(found) > 1 else np.zeros(len(names))
        mixes = [one["mix"] for one in found if one["mix"] is not None]
        return LabRow(
            row.name,
            row.size(self.encoder.config.hidden_size),
            found[0]["parameters"],
            dict(zip(names, table.mean(axis=0).tolist(), strict=True)),
            dict(zip(names, deviation.tolist(), strict=True)),
            [one["metrics"][self.task.main_metric] for one in found],
            [one["best_step"] for one in found],
            _mean_mix(mixes) if mixes else None,
        )


def open_encoder(config: LayerLabConfig) -> Model:
    """The frozen model in evaluation mode. Raises ModelFolderError."""
    model, report = load_model(find_folder(config.model)[0])
    report.log_weight_mismatch(config.model)
    tokenizer_of(model)
    return place(model.requires_grad_(False).eval(), config.device, config.precision)


def published_scores() -> dict[str, float]:
    """The six published scores, name -> F1 as a fraction."""
    table = published_table("conll2003-layers", "paper")
    return {row.name: row.values["Dev F1"] / 100 for row in table.rows}


def published_order(rows: Sequence[LabRow]) -> dict[str, Any]:
    """Whether each row that is published as better is at least as good here.

    {"holds": None with fewer than two of its rows, "steps": [{"higher", "lower", "difference", "deviation", "holds"}]};
    differences are paired by seed.
    """
    found = {row.name: row for row in rows}
    steps = []
    for higher, lower in pairwise(name for name in ORDER if name in found):
        gaps = np.asarray(found[higher].runs) - np.asarray(found[lower].runs)
        mean = float(gaps.mean())
        deviation = float(gaps.std(ddof=1)) if len(gaps) > 1 else None
        steps.append({"higher": higher, "lower": lower, "difference": mean, "deviation": deviation, "holds": mean >= 0})
    return {"holds": all(step["holds"] for step in steps) if steps else None, "steps": steps}


def _mean_mix(mixes: Sequence[dict[str, Any]]) -> dict[str, Any]:
    shares = np.array([mix["shares"] for mix in mixes])  # [seeds, layers]
    return {
        "shares": shares.mean(axis=0).tolist(),
        "scale": float(np.mean([mix["scale"] for mix in mixes])),
        "each": shares.tolist(),
    }


def _result(run: RunFolder, result: dict[str, Any], already_finished: bool = False) -> LayerLabResult:
    return LayerLabResult(
        run.path,
        result["main_metric"],
        tuple(LabRow(**row) for row in result["rows"]),
        None if result["finetuned"] is None else LabRow(**result["finetuned"]),
        result["order"],
        result["published"],
        tuple(result["left_out"]),
        already_finished,
    )
