"""Layer-wise probing: which layers of a frozen encoder give the best features (Devlin et al. 2019, section 5.3).

A probe is trained on each choice of layers, with equal steps and seeds, and compared with the scalar mix of all layers
(Peters et al. 2018) and the fine-tuned model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from itertools import pairwise
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from ..core import storage
from ..core.progress import note
from ..data.batch import Batch
from ..hub.download import find_folder
from ..hub.folders import load_model
from ..inference.embed import NAMED_LAYERS, LayerChoice, choose_layers
from ..inference.probing import Features, make_features
from ..inference.ready import place
from ..models.model import Model, tokenizer_of
from ..models.probes import TokenProbe
from ..nn.layers import ScalarMix
from ..report import Bar, Bars, Block, Command, Facts, Table
from ..report.numbers import percent, plus_minus
from ..tasks.evaluation.published import published_table
from ..tasks.tagging.examples import TaggedExamples
from ..tasks.tagging.task import Tagging
from ..train.finetuning.finetune import FinetuningSetup, finetune
from ..train.finetuning.job import FinetuneJob, MemoryBestModelSaver
from ..train.finetuning.report import mixture_bars
from ..train.finetuning.seeds import epoch_settings, mean_and_deviation
from ..train.loop import train
from ..train.run import RunFolder
from .config import TASK, LayerLabConfig
from .runner import Experiment, ExperimentResult, Part, Shown, run_experiment

MIX = "learned-mix"
NEEDS = 4  # minimum number of layers for the names with "-4"
SCALE_ROWS = 8192  # words per block when the scale of features is measured
ORDER = ("concat-last-4", "sum-last-4", "second-to-last", "embeddings")  # as published, best first
PROBES = {"linear": "a linear layer", "bilstm": "a BiLSTM"}
PUBLISHED = (
    "Published: Devlin et al. 2019, table 7: BERT-base on all of CoNLL-2003 with a two-layer BiLSTM of size 768. Model "
    "and training differ, so only the order is comparable."
)


# -- a probe on frozen features, with the interface of a tagging model: `input_ids` are rows of the features (words, not
#    tokens), so it is trained and scored by the code that fine-tunes a tagger


@dataclass(frozen=True)
class Combination:
    """A row of the results. choice: its layers, None for the scalar mix of all layers."""

    name: str
    choice: LayerChoice | None

    def size(self, hidden_size: int) -> int:
        return hidden_size if self.choice is None else self.choice.size(hidden_size)


def combinations(num_layers: int, each_layer: bool = False) -> tuple[list[Combination], list[str]]:
    """The rows of an experiment (with `each_layer` also every single layer), and the names that need more layers."""
    names = [name for name in NAMED_LAYERS if num_layers >= NEEDS or not name.endswith("-4")]
    rows = [Combination(name, choose_layers(name, num_layers)) for name in names]
    rows.append(Combination(MIX, None))
    known = {row.choice.numbers for row in rows if row.choice is not None and len(row.choice.numbers) == 1}
    rows += [
        Combination(f"layer-{number}", LayerChoice((number,), "concat"))
        for number in range(num_layers + 1 if each_layer else 0)
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
        vectors = self.vectors(batch.input_ids.cpu(), self.head.classifier.weight.device) * self.scale
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


@torch.inference_mode()
def feature_scale(features: Features, choice: LayerChoice | None, num_train_words: int) -> float:
    """The factor that gives the features of the training words a mean square of 1.

    A sum of several layers is larger than one layer, which acts like a higher learning rate; the scale makes all rows
    comparable. The scalar mix is measured at its initialization, the mean of the layers.
    """
    reader = FeatureProbe(features, choice, TokenProbe(1, 2))
    total, count = torch.zeros((), dtype=torch.float64), 0
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


# -- the experiment ----------------------------------------------------------------------------------------------------


def layer_lab(config: LayerLabConfig, *, restart: bool = False) -> ExperimentResult:
    """Compares layers of a frozen encoder by probes, or resumes the run in `config.output`.

    Args:
        config: Settings of the comparison.
        restart: Discard what is there, and start over.

    Returns:
        The result of the run. Its facts: "rows", the choices of layers, each {"name", "size", "parameters", "mean",
        "deviation", "runs", "best_steps", "mix"}; "finetuned", the row of the fine-tuned model or None; "order",
        whether the published order holds; "published", name -> published score as a fraction; "left_out", names that
        need more layers.

    Raises:
        RunError: If the folder has another run, or the data have changed.
        RowErrors: If the data has invalid rows; all are listed.
    """
    return run_experiment(LayerLab, config, restart=restart)


class LayerLab(Experiment):
    """Loads the data and the frozen encoder of a run, and trains its probes."""

    config: LayerLabConfig

    def __init__(self, config: LayerLabConfig, run: RunFolder) -> None:
        super().__init__(config, run)
        self.device = torch.device(config.device)
        bench = FinetuningSetup(config.probing, self.device)  # checks and reports the rows
        assert isinstance(bench.task, Tagging)
        assert isinstance(bench.train, TaggedExamples) and isinstance(bench.dev, TaggedExamples)
        self.task, self.data, self.parts = bench.task, bench.data, (bench.train, bench.dev)
        model, report = load_model(find_folder(config.model)[0])
        report.log_weight_mismatch(config.model)
        tokenizer_of(model)
        self.encoder = place(model.requires_grad_(False).eval(), config.device, config.precision)
        num_layers = self.encoder.config.num_hidden_layers
        self.combinations, self.left_out = combinations(num_layers, config.each_layer)
        if self.left_out:
            note(f"The model has {num_layers} layers, so {' and '.join(self.left_out)} are skipped.")
        self.train = word_examples(bench.train, 0)
        self.dev = word_examples(bench.dev, bench.train.num_words)
        run.check_inputs()

    @cached_property
    def features(self) -> Features:
        config = self.config
        folder, limit = self.run.path / "features", config.feature_memory * 1e9
        return make_features(self.encoder, self.parts, folder, config.feature_dtype, limit)

    def measure(self) -> dict[str, Any]:
        config, seeds = self.config, self.config.all_seeds
        scale_of = cache(lambda choice: feature_scale(self.features, choice, self.train.num_words))
        parts = [
            Part(f"{row.name}-seed-{seed}", f"{row.name}, seed {seed}", partial(self._probe, row, seed, scale_of))
            for row in self.combinations
            for seed in seeds
        ]
        found = self.run_parts(parts)
        probes = {row.name: [found[f"{row.name}-seed-{seed}"] for seed in seeds] for row in self.combinations}
        rows = [self._row(row, probes[row.name]) for row in self.combinations]
        tuned = self._finetuned() if config.also_finetune else None
        storage.remove_folder(self.run.path / "features")  # large, and reproducible
        return {
            "main_metric": self.task.main_metric,
            "rows": rows,
            "finetuned": tuned,
            "order": published_order(rows),
            "published": published_scores() if self.task.scheme is not None else {},
            "left_out": self.left_out,
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
            "num_layers": self.encoder.config.num_hidden_layers,
        }

    def _probe(self, row: Combination, seed: int, scale_of: Any) -> dict[str, Any]:
        """Train one probe, initialized from `seed`."""
        config, task = self.config, self.task
        head = TokenProbe(
            row.size(self.features.hidden_size),
            task.num_labels,
            config.probe,
            hidden_size=config.probe_size,
            num_layers=config.probe_layers,
            dropout_rate=config.dropout,
            crf=config.crf,
            seed=seed,
        )
        scale = scale_of(row.choice)
        probe = FeatureProbe(self.features, row.choice, head, scale).to(self.device)
        model = cast("Model", probe)  # a job needs only `logits` of a batch, a head and weights
        job = FinetuneJob(
            model,
            task,
            self.train,
            self.dev,
            MemoryBestModelSaver(),
            batch_size=config.batch_size,
            seed=seed,
            device=self.device,
        )
        task.init_from_counts(job.model, self.train)
        steps = job.steps_per_epoch
        train(job, replace(epoch_settings(config.probing, steps, seed), log_every=max(steps, 1)), name=row.name)
        job.conclude()
        mix = probe.mix
        return {
            "metrics": job.best["metrics"],
            "best_step": job.best["step"],
            "parameters": sum(parameter.numel() for parameter in probe.parameters()),
            "scale": scale,
            "mix": None if mix is None else {"shares": mix.shares().tolist(), "scale": mix.scale.item()},
        }

    def _row(self, row: Combination, found: Sequence[dict[str, Any]]) -> dict[str, Any]:
        mix = None
        if row.choice is None:
            shares = np.array([one["mix"]["shares"] for one in found])  # [seeds, layers]
            scale = float(np.mean([one["mix"]["scale"] for one in found]))
            mix = {"shares": shares.mean(axis=0).tolist(), "scale": scale, "each": shares.tolist()}
        return {
            "name": row.name,
            "size": row.size(self.encoder.config.hidden_size),
            "parameters": found[0]["parameters"],
            **mean_and_deviation([one["metrics"] for one in found]),
            "runs": [one["metrics"][self.task.main_metric] for one in found],
            "best_steps": [one["best_step"] for one in found],
            "mix": mix,
        }

    def _finetuned(self) -> dict[str, Any]:
        """Fine-tune the whole model on the same rows, with the same seeds, in a separate run folder."""
        result = finetune(self.config.finetuning)
        hidden, tags = self.encoder.config.hidden_size, self.task.num_labels
        head = (hidden + 1) * tags + (tags * (tags + 2) if self.config.crf else 0)
        named = self.encoder.encoder.named_parameters()
        return {
            "name": "fine-tuned",
            "size": hidden,
            "parameters": head + sum(one.numel() for name, one in named if not name.startswith("pooler.")),
            "mean": result.mean,
            "deviation": result.deviation,
            "runs": [seed[result.main_metric] for seed in result.seeds],
            "best_steps": [seed["best_step"] for seed in result.seeds],
            "mix": None,
        }

    @classmethod
    def show(cls, recipe: Mapping[str, Any], facts: dict[str, Any]) -> Shown:
        metric, rows, tuned, order = (facts[name] for name in ("main_metric", "rows", "finetuned", "order"))
        words, shown, published = metric.replace("_", " "), [*rows, *([tuned] if tuned else [])], facts["published"]
        best = max(rows, key=lambda row: row["mean"][metric])
        said = [
            f"On frozen features {PROBES[recipe['probe']]} is best with {best['name']}: dev {words} "
            f"{_score(best, metric)}."
        ]
        said += [f"The fine-tuned model gets {_score(tuned, metric)}."] if tuned else []
        said += [f"Skipped, because the model has too few layers: {', '.join(facts['left_out'])}."] * bool(
            facts["left_out"]
        )
        columns = ("features", "size", "parameters", metric, *["published"] * bool(published))
        cells = []
        for row in shown:
            other = f"{published[row['name']]:.3f}" if row["name"] in published else ""
            own = (row["name"], row["size"], f"{row['parameters']:,}", _score(row, metric))
            cells.append([*own, *[other] * bool(published)])
        note_text = "The best epoch of each seed is chosen on the dev examples, for probes and for the fine-tuned model"
        note_text += ", which come from the training file." if facts["dev_from_train"] else "."
        table = Table(
            columns,
            cells,
            title="Features compared",
            note=f"{note_text} {PUBLISHED}" if published else note_text,
            right=columns[1:],
        )
        steps = [
            (
                step["higher"],
                step["lower"],
                f"{step['difference']:+.3f}".replace("-", "−")
                + ("" if step["deviation"] is None else f" ± {step['deviation']:.3f}"),
                "yes" if step["holds"] else "no",
            )
            for step in order["steps"]
        ]
        verdict = f"{order_verdict(order)} Differences are paired by seed."
        steps_table = Table(
            ("better as published", "than", "difference here", "holds"),
            steps,
            title="The published order",
            note=verdict,
        )
        bars = [Bar(row["name"], row["mean"][metric], _score(row, metric)) for row in shown]
        blocks: list[Block] = [
            Bars(bars, title=f"Dev {words} by layers", note="Mean ± deviation over seeds; bars begin at 0."),
            _mix(rows),
            Facts({**facts["data"], "steps of each probe": facts["steps"]}, title="The data"),
        ]
        next_steps = _next(recipe, rows, tuned, metric)
        return Shown(f"layers of {recipe['model']}", said, [table, steps_table], blocks, next_steps)


def published_scores() -> dict[str, float]:
    """The six published scores, name -> F1 as a fraction."""
    return {row.name: row.values["Dev F1"] / 100 for row in published_table("conll2003-layers", "paper").rows}


def published_order(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Whether each row that is published as better is at least as good here.

    {"holds": None with fewer than two of its rows, "steps": [{"higher", "lower", "difference", "deviation", "holds"}]};
    differences are paired by seed.
    """
    found = {row["name"]: row for row in rows}
    steps = []
    for higher, lower in pairwise(name for name in ORDER if name in found):
        gaps = np.asarray(found[higher]["runs"]) - np.asarray(found[lower]["runs"])
        mean, deviation = float(gaps.mean()), float(gaps.std(ddof=1)) if len(gaps) > 1 else None
        steps.append({"higher": higher, "lower": lower, "difference": mean, "deviation": deviation, "holds": mean >= 0})
    return {"holds": all(step["holds"] for step in steps) if steps else None, "steps": steps}


def order_verdict(order: Mapping[str, Any]) -> str:
    """The published order as one sentence."""
    if order["holds"] is None:
        return "The published order cannot be checked: the model has too few layers."
    names = [order["steps"][0]["higher"], *(step["lower"] for step in order["steps"])]
    return f"The published order {' >= '.join(names)} {'holds' if order['holds'] else 'does not hold'} here."


def _next(recipe: Mapping[str, Any], rows: Sequence[Any], tuned: Any, metric: str) -> list[Command]:
    """Commands that use the best layers. The scalar mix belongs to its probe, so the best other row is exported."""
    best = max((row for row in rows if row["name"] != MIX), key=lambda row: row["mean"][metric])
    model = recipe["model"]
    how = {"layers": best["name"].removeprefix("layer-"), "pooling": "none", "words": True}
    files = {"input": "texts.txt", "output": "features.npy"}
    steps = [Command.suggest("write these features for your texts", "embed", model=model, **files, **how)]
    if tuned is None:
        labeled = {name: recipe[name] for name in ("train", "dev", "columns") if name in recipe}
        own = {"task": TASK, "model": model, "output": "runs/tagger", **labeled}
        return [*steps, Command.suggest("train the whole model instead", "finetune", **own)]
    tagger = f"{recipe['output']}/finetuned/model"
    about = "score the fine-tuned model on test rows"
    return [*steps, Command.suggest(about, "evaluate", model=tagger, file="test.conll")]


def _score(row: Mapping[str, Any], metric: str) -> str:
    return plus_minus(row["mean"][metric], row["deviation"][metric] if len(row["runs"]) > 1 else None)


def _mix(rows: Sequence[Any]) -> Bars:
    """The layer weights of the scalar mix."""
    mix = next(row["mix"] for row in rows if row["name"] == MIX)
    labels = ["embeddings", *(f"layer {number}" for number in range(1, len(mix["shares"])))]
    texts = [
        f"{percent(share)} ({percent(min(seeds))} to {percent(max(seeds))})"
        for share, *seeds in zip(mix["shares"], *mix["each"], strict=True)
    ]
    return mixture_bars(labels, mix["shares"], texts, mix["scale"], "mean and range over seeds; ")
