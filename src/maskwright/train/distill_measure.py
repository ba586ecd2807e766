"""Size, speed and score of a network, and the same of the teacher with heads or layers taken away."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from torch import Tensor

from ..core.progress import note
from ..data.batch import Batch
from ..models.model import Model
from .prune import drop_top_layers, has_learned_distances, head_importance, least_important, prune_heads

REPEATS = 3  # passes over the timed batches; the median counts
TIMED_BATCHES = 32


@dataclass(frozen=True)
class Exam:
    """How networks of a run are compared.

    metric: the score that counts (higher is better); batches: held-out ones, on the device; run: the forward pass;
    score: all scores of a model on held-out data; practice: training batches, and loss: the summed loss of one, for the
    importance of heads.
    """

    metric: str
    batches: Sequence[Batch]
    run: Callable[[Model, Batch], Any]
    score: Callable[[Model], dict[str, float]]
    practice: Sequence[Batch]
    loss: Callable[[Model, Batch], Tensor]


@dataclass(frozen=True)
class Measured:
    """One row of the report. size_bytes: of the weights as they are in memory; texts_per_second: of forward passes."""

    name: str
    layers: int
    heads: int
    parameters: int
    size_bytes: int
    texts_per_second: float
    scores: dict[str, float]


def measure(name: str, model: Model, exam: Exam) -> Measured:
    """Score a model and time its forward pass, out of training mode."""
    model.eval()
    parameters = list(model.parameters())
    return Measured(
        name,
        model.config.num_hidden_layers,
        sum(layer.attention.num_heads for layer in model.encoder.in_order),
        model.num_parameters,
        sum(parameter.numel() * parameter.element_size() for parameter in parameters),
        texts_per_second(model, exam),
        exam.score(model),
    )


@torch.inference_mode()
def texts_per_second(model: Model, exam: Exam) -> float:
    """Median of some passes over the exam's batches, after one that does not count."""
    batches = exam.batches[:TIMED_BATCHES]
    on_gpu = model.word_embeddings.device.type == "cuda"
    times = []
    for repeat in range(REPEATS + 1):
        start = time.perf_counter()
        for batch in batches:
            exam.run(model, batch)
        if on_gpu:
            torch.cuda.synchronize()
        if repeat:
            times.append(time.perf_counter() - start)
    return sum(len(batch) for batch in batches) / max(median(times), 1e-9)


def pruned_rows(teacher: Model, exam: Exam, share: float, num_layers: int) -> list[Measured]:
    """The teacher without a share of its heads, and without its highest layers; no row where nothing is taken away."""
    rows = []
    teacher.requires_grad_(True)  # importance is a derivative
    if share and has_learned_distances(teacher):
        note("The teacher's heads have learned positions of their own, so there is no row with fewer heads.")
    elif share and teacher.config.num_hidden_groups is not None:
        note("The teacher's layers share their heads, so there is no row with fewer heads.")
    elif share:
        removed = least_important(head_importance(teacher, exam.practice, exam.loss), share)
        count = sum(map(len, removed.values()))
        if count:
            name = f"teacher, {count} least important heads taken away"
            rows.append(measure(name, prune_heads(teacher, removed), exam))
        else:
            note(f"A share of {share} is less than one head of the teacher: there is no row with fewer heads.")
    if num_layers:
        name = f"teacher, {num_layers} highest layer{'s' if num_layers > 1 else ''} taken away"
        rows.append(measure(name, drop_top_layers(teacher, num_layers), exam))
    teacher.requires_grad_(False)
    return rows
