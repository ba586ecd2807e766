"""Layer-wise probing: which layers of a frozen encoder give the best features (Devlin et al. 2019, section 5.3).

A probe is trained on each choice of layers, with equal steps and seeds, and compared with the scalar mix of all layers
(Peters et al. 2018) and the fine-tuned model. Finished probes are kept, so rerunning the same command resumes.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ...core import storage
from ...core.progress import note
from ...hub.download import find_folder
from ...hub.folders import load_model
from ...inference.layer_features import Features, feature_bytes, make_features
from ...inference.ready import place
from ...models.device import DTYPES, resolve_device, resolve_precision
from ...models.model import Model, tokenizer_of
from ...report.numbers import duration
from ...tasks.evaluation.published import published_table
from ...tasks.tagging.examples import TaggedExamples
from ...tasks.tagging.task import Tagging
from ...train.finetuning.finetune import FinetuningSetup, finetune
from ...train.finetuning.seeds import epoch_settings
from ...train.loop import train
from ...train.run import RunFolder, open_run_of
from .config import LayerLabConfig
from .probe import Combination, ProbeJob, combinations, feature_scale, make_probe, word_examples
from .report import write_layer_lab_report

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
