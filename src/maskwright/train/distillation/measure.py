"""Size, speed and score of a network, and of its teacher pruned, in int8, factorized and with shared layers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import torch
from torch import Tensor

from ...core.errors import MaskwrightError
from ...core.progress import note
from ...data.batch import Batch
from ...inference.engine.choice import require_int8
from ...inference.engine.engine import Engine
from ...models.model import Model
from .compress import factorize_words, int8_bytes, share_layers
from .pruning import drop_top_layers, has_learned_distances, head_importance, least_important, prune_heads

REPEATS = 3  # passes over the timed batches; the median counts
TIMED_BATCHES = 32
RANK_DIVISOR = 4  # the rank of the factorized word table is the width divided by this


@dataclass(frozen=True)
class StudentEvaluation:
    """The evaluation that compares the networks of a run.

    metric: the main metric (higher is better); batches: held-out batches, on the device; run: the forward pass; score:
    returns all scores of a model on held-out data; baseline: the metric of a trivial predictor, and its description;
    practice: training batches, for calibration and head importance; loss: their summed loss, None to prune nothing.
    """

    metric: str
    batches: Sequence[Batch]
    run: Callable[[Model, Batch], Any]
    score: Callable[[Model], dict[str, float]]
    baseline: tuple[float, str]
    practice: Sequence[Batch] = ()
    loss: Callable[[Model, Batch], Tensor] | None = None


@dataclass(frozen=True)
class Measured:
    """One row of the report. size_bytes: of the weights in memory; texts_per_second: throughput of forward passes."""

    name: str
    layers: int
    heads: int
    parameters: int
    size_bytes: int
    texts_per_second: float
    scores: dict[str, float]


def measure(name: str, model: Model, evaluation: StudentEvaluation) -> Measured:
    """Score a model and time its forward pass, in evaluation mode."""
    model.eval()
    parameters = list(model.parameters())
    return Measured(
        name,
        model.config.num_hidden_layers,
        sum(layer.attention.num_heads for layer in model.encoder.in_order),
        model.num_parameters,
        sum(parameter.numel() * parameter.element_size() for parameter in parameters),
        texts_per_second(model, evaluation),
        evaluation.score(model),
    )


@torch.inference_mode()
def texts_per_second(model: Model, evaluation: StudentEvaluation) -> float:
    """Median throughput of several passes over the evaluation's batches, after a warmup pass."""
    batches = evaluation.batches[:TIMED_BATCHES]
    on_gpu = model.word_embeddings.device.type == "cuda"
    times = []
    for repeat in range(REPEATS + 1):
        start = time.perf_counter()
        for batch in batches:
            evaluation.run(model, batch)
        if on_gpu:
            torch.cuda.synchronize()
        if repeat:
            times.append(time.perf_counter() - start)
    return sum(len(batch) for batch in batches) / max(median(times), 1e-9)


def pruned_rows(teacher: Model, evaluation: StudentEvaluation, share: float, num_layers: int) -> list[Measured]:
    """The teacher without a fraction of its heads, and without its top layers; no row if nothing is removed."""
    rows: list[Measured] = []
    if evaluation.loss is None:
        return rows
    teacher.requires_grad_(True)  # importance is a derivative
    if share and has_learned_distances(teacher):
        note("The teacher's heads have learned relative positions, so there is no row with fewer heads.")
    elif share and teacher.config.num_hidden_groups is not None:
        note("The teacher's layers share their heads, so there is no row with fewer heads.")
    elif share:
        removed = least_important(head_importance(teacher, evaluation.practice, evaluation.loss), share)
        count = sum(map(len, removed.values()))
        if count:
            name = f"teacher, {count} least important heads pruned"
            rows.append(measure(name, prune_heads(teacher, removed), evaluation))
        else:
            note(f"A fraction of {share} is less than one head of the teacher: there is no row with fewer heads.")
    if num_layers:
        name = f"teacher, top {num_layers} layer{'s' if num_layers > 1 else ''} removed"
        rows.append(measure(name, drop_top_layers(teacher, num_layers), evaluation))
    teacher.requires_grad_(False)
    return rows


def compressed_rows(teacher: Model, evaluation: StudentEvaluation) -> list[Measured]:
    """The teacher in int8, with factorized word embeddings, and with shared layers; none is trained again.

    A method that the network or the device does not support is skipped with a note.
    """
    rank = teacher.config.hidden_size // RANK_DIVISOR
    methods: dict[str, Callable[[], Measured]] = {
        "teacher in int8": lambda: _in_int8(teacher, evaluation),
        f"teacher, word table of rank {rank}": lambda: measure("", factorize_words(teacher, rank), evaluation),
        "teacher, layers share their mean weights": lambda: measure("", share_layers(teacher), evaluation),
    }
    rows = []
    for name, method in methods.items():
        try:
            rows.append(replace(method(), name=name))
        except MaskwrightError as error:
            note(f"No row '{name}': {error}")
    return rows


def _in_int8(teacher: Model, evaluation: StudentEvaluation) -> Measured:
    """Measures a copy that runs in int8, calibrated on the training batches."""
    require_int8(teacher.word_embeddings.device)
    rounded = deepcopy(teacher).eval()
    rounded.compute_dtype, rounded.engine = torch.float32, Engine(int8=True)
    rounded.engine.calibrate(rounded, evaluation.practice)
    return replace(measure("", rounded, evaluation), size_bytes=int8_bytes(rounded))
