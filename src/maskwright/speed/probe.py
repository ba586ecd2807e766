"""Measures this machine: the peak of its matrix products, and the training speed of a model from a few real steps.

The time of a step is linear in the number of layers. Two shallow models are trained for some steps in the full training
loop, and the time is extrapolated to the full depth. A shallow model is trained as it is.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from ..core.randomness import generator
from ..data.batch import Batch
from ..models.device import DTYPES
from ..models.model import Model
from ..objectives.base import Objective
from ..objectives.fitting import GENERATOR_SHARE
from ..objectives.masked import MaskedRecipe, Masker
from ..objectives.outcome import LossSums
from ..train.loop import LoopSettings, train
from .plan_config import PlanConfig
from .workload import Workload, objective_of, workload_of

CLS, SEP, MASK, SPECIAL = 2, 3, 4, 5  # token IDs of the random text, as in a BERT vocabulary
STEP_SECONDS = 1.0  # target time of a step of the deeper model
EXPECTED_UTILIZATION = 0.3  # used to choose the sequences per step
MIN_TOKENS = 512  # per step: fewer are not representative of training
WARM_UP, MIN_STEPS, MAX_STEPS = 2, 3, 200
SENTENCE, DOCUMENTS = 20, 8


ROWS, GPU_ROWS = 2048, 32768
SQUARE, GPU_SQUARE = 1536, 8192  # large enough to reach the peak


def matrix_ceiling(hidden: int, intermediate: int, precision: str, device: torch.device, seconds: float = 1.0) -> float:
    """Return the highest FLOP/s of the matrix products of an encoder and a square product.

    precision: a name of models.device.DTYPES. Every product is warmed up. The fastest repetition counts, which a busy
    machine affects less than the mean.
    """
    rows, square = (GPU_ROWS, GPU_SQUARE) if device.type == "cuda" else (ROWS, SQUARE)
    shapes = ((rows, hidden, intermediate), (rows, intermediate, hidden), (square, square, square))
    return max(_best(shape, DTYPES[precision], device, seconds / len(shapes)) for shape in shapes)


@torch.inference_mode()
def _best(shape: tuple[int, int, int], dtype: torch.dtype, device: torch.device, seconds: float) -> float:
    """Return the highest FLOP/s of x W^T: x [rows, inner], W [columns, inner]."""
    rows, inner, columns = shape
    # Random numbers: a GPU multiplies constant ones faster, at lower power.
    draws = torch.Generator(device).manual_seed(0)
    x = torch.randn(rows, inner, dtype=dtype, device=device, generator=draws)
    weight = torch.randn(columns, inner, dtype=dtype, device=device, generator=draws)
    F.linear(x, weight)
    wait(device)
    best, begin = 0.0, time.perf_counter()
    while best == 0.0 or time.perf_counter() - begin < seconds:
        started = time.perf_counter()
        F.linear(x, weight)
        wait(device)
        best = max(best, 2 * rows * inner * columns / (time.perf_counter() - started))
    return best


def wait(device: torch.device) -> None:
    """Synchronize with the device."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


@dataclass(frozen=True)
class ProbeResult:
    """Result of a probe.

    tokens_per_second: of the full model; depths: numbers of layers that were trained; sequences: per step; ceiling:
    peak FLOP/s of matrix products.
    """

    tokens_per_second: float
    depths: tuple[int, ...]
    sequences: int
    ceiling: float


class RandomText:
    """Documents of random tokens with Zipf frequencies, because optimizer time depends on the embedding rows in use.

    length: tokens per document.
    """

    def __init__(self, vocab_size: int, length: int, seed: int = 0) -> None:
        draws = generator(seed, "probe text").zipf(1.3, size=(DOCUMENTS, length)) + SPECIAL - 1
        self.tokens = np.minimum(draws, vocab_size - 1).astype(np.int64)
        self.bounds = {number: [*range(0, length, SENTENCE), length] for number in range(DOCUMENTS)}

    def document_tokens(self, document: int) -> np.ndarray:
        """Return the tokens of a document: int64 [length]."""
        found: np.ndarray = self.tokens[document]
        return found


def probe(config: PlanConfig, work: Workload, device: torch.device, precision: str, sequences: int) -> ProbeResult:
    """Train for about `config.probe_seconds` on `device`. sequences: maximum per micro-batch."""
    network = work.config
    ceiling = matrix_ceiling(
        network.hidden_size, network.intermediate_size, precision, device, min(config.probe_seconds / 10, 1.0)
    )
    depths = _depths(config, work)
    deepest = _at_depth(config, work, depths[-1])
    affordable = STEP_SECONDS * EXPECTED_UTILIZATION * ceiling / (workload_of(deepest).flops().total * work.length)
    sequences = min(sequences, max(int(affordable), MIN_TOKENS // work.length, 1))
    seconds = config.probe_seconds / len(depths)
    times = [_step_seconds(_at_depth(config, work, depth), device, precision, sequences, seconds) for depth in depths]
    whole = times[0]
    if len(depths) > 1:
        layer = max((times[1] - times[0]) / (depths[1] - depths[0]), 0.0)
        whole += layer * (work.config.num_hidden_layers - depths[0])
    return ProbeResult(sequences * work.length / whole, depths, sequences, ceiling)


def _depths(config: PlanConfig, work: Workload) -> tuple[int, ...]:
    """Return the two depths to train: one layer, and one more cycle of layer types; or the full depth.

    A decoder has the depth of its encoder; if the full depths differ, the full network is trained.
    """
    layers, decoder = work.config.num_hidden_layers, work.config.num_decoder_layers
    deeper = 1 + max(work.config.full_attention_every, 2)
    return (layers,) if layers <= deeper or decoder not in (0, layers) else (1, deeper)


def _at_depth(config: PlanConfig, work: Workload, depth: int) -> PlanConfig:
    sizes = {"num_hidden_layers": depth}
    if work.config.num_hidden_groups:
        sizes |= {"num_hidden_groups": 1, "layers_per_group": 1}
    if work.config.num_decoder_layers == work.config.num_hidden_layers:
        sizes["num_decoder_layers"] = depth
    return replace(config, model={**config.model, **sizes})


def _step_seconds(config: PlanConfig, device: torch.device, precision: str, sequences: int, seconds: float) -> float:
    """Return the median seconds of a training step."""
    job = _Job(config, workload_of(config), device, precision, sequences)
    job.run(WARM_UP)
    job.run(min(max(int(seconds / job.median), MIN_STEPS), MAX_STEPS))
    return job.median


class _Job:
    """Times training steps on random text."""

    def __init__(
        self, config: PlanConfig, work: Workload, device: torch.device, precision: str, sequences: int
    ) -> None:
        network, vocab_size = work.config, work.config.vocab_size
        masker = Masker(MASK, frozenset(range(SPECIAL)), vocab_size, config.mask_rate)
        share = config.generator_share or GENERATOR_SHARE
        recipe = MaskedRecipe.of(CLS, SEP, masker, config.max_length, short_share=0.0, generator_share=share)
        self.objective: Objective = objective_of(config)(recipe)
        self.model: nn.Module = self.objective.network(network, seed=0).to(device)
        for part in self.model.modules():
            if isinstance(part, Model):
                part.compute_dtype = DTYPES[precision]
                part.recomputes = config.activation_checkpointing
        self.sequences, self.device, self.times = sequences, device, [0.0]
        # Each document is long enough for its part of the sequences of a step.
        self.text = RandomText(vocab_size, work.length * (sequences // DOCUMENTS + 2))

    def run(self, steps: int) -> None:
        """Train for `steps` steps and record their start times and the end time."""
        self.times = []
        never = steps + 1
        settings = LoopSettings(steps, 1e-4, 0.0, "constant", 0.01, 1.0, 0, never, never, never)
        train(self, settings, name="probe")
        self.times.append(time.perf_counter())

    @property
    def median(self) -> float:
        """Median seconds of a step."""
        return median(later - earlier for earlier, later in zip(self.times, self.times[1:], strict=False))

    def micro_batches(self, step: int) -> list[Batch]:
        """Build one batch of random text."""
        self.times.append(time.perf_counter())
        rng = generator(0, "probe", step)
        examples = self.objective.plan(self.text.bounds, rng)[: self.sequences]
        return [self.objective.batch(self.text, examples, rng).to(self.device)]

    def counts(self, batch: Batch) -> dict[str, int]:
        return self.objective.counts(batch)

    def outcome(self, batch: Batch) -> LossSums:
        return self.objective.outcome(self.model, batch)

    def evaluate(self, step: int) -> dict[str, float]:
        return {}

    def should_stop(self) -> bool:
        return False

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        raise AssertionError("a probe writes no checkpoints")
