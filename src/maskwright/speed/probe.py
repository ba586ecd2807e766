"""A few seconds of real training steps on this machine, from which the speed of the whole network follows.

A network is layers of one kind under a head, so the time of a step is a straight line in its depth. Two shallow ones
are trained for some steps, with all that the loop does, and the line is read off at the full depth. A network that is
shallow itself is trained as it is.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import nn

from ..core import registry
from ..core.randomness import generator
from ..data.batch import Batch
from ..models.device import DTYPES
from ..objectives.masking import Masker
from ..objectives.outcome import Outcome
from ..objectives.pretraining import GENERATOR_SHARE, MaskedLanguageModelling, Recipe
from ..train.loop import LoopSettings, train
from .ceiling import matrix_ceiling
from .plan_config import PlanConfig
from .workload import Workload, workload_of

CLS, SEP, MASK, SPECIAL = 2, 3, 4, 5  # ids of the random text, as in a vocabulary of BERT
STEP_SECONDS = 1.0  # of the deeper network, at most
EXPECTED_SHARE = 0.3  # of the ceiling, to choose how many sequences such a step has
FEWEST_TOKENS = 512  # of a step: fewer are no measure of training, however slow the machine
WARM_UP, FEWEST, MOST = 2, 3, 200  # steps
SENTENCE, DOCUMENTS = 20, 8


@dataclass(frozen=True)
class Probed:
    """tokens_per_second: of the whole network; depths: of those that were trained; sequences: of their steps;
    ceiling: operations a second of plain matrix products."""

    tokens_per_second: float
    depths: tuple[int, ...]
    sequences: int
    ceiling: float


class RandomText:
    """Documents of random tokens whose frequencies fall as in text (Zipf): the optimiser minds which rows are touched.

    length: tokens of a document.
    """

    def __init__(self, vocab_size: int, length: int, seed: int = 0) -> None:
        draws = generator(seed, "probe text").zipf(1.3, size=(DOCUMENTS, length)) + SPECIAL - 1
        self.tokens = np.minimum(draws, vocab_size - 1).astype(np.int64)
        self.bounds = {number: [*range(0, length, SENTENCE), length] for number in range(DOCUMENTS)}

    def document_tokens(self, document: int) -> np.ndarray:
        """int64 [length]."""
        found: np.ndarray = self.tokens[document]
        return found


def probe(config: PlanConfig, work: Workload, device: torch.device, precision: str, sequences: int) -> Probed:
    """Train for about `config.probe_seconds` on `device`. sequences: of a micro-batch, at most."""
    network = work.config
    ceiling = matrix_ceiling(
        network.hidden_size, network.intermediate_size, precision, device, min(config.probe_seconds / 10, 1.0)
    )
    depths = _depths(config, work)
    deepest = _at_depth(config, work, depths[-1])
    affordable = STEP_SECONDS * EXPECTED_SHARE * ceiling / (workload_of(deepest).flops().total * work.length)
    sequences = min(sequences, max(int(affordable), FEWEST_TOKENS // work.length, 1))
    seconds = config.probe_seconds / len(depths)
    times = [_step_seconds(_at_depth(config, work, depth), device, precision, sequences, seconds) for depth in depths]
    whole = times[0]
    if len(depths) > 1:
        layer = max((times[1] - times[0]) / (depths[1] - depths[0]), 0.0)
        whole += layer * (work.config.num_hidden_layers - depths[0])
    return Probed(sequences * work.length / whole, depths, sequences, ceiling)


def _depths(config: PlanConfig, work: Workload) -> tuple[int, ...]:
    """One layer, and one more round of different layers; or the network itself."""
    layers = work.config.num_hidden_layers
    deeper = 1 + max(work.config.full_attention_every, 2)
    return (layers,) if layers <= deeper else (1, deeper)


def _at_depth(config: PlanConfig, work: Workload, depth: int) -> PlanConfig:
    groups = {"num_hidden_groups": 1} if work.config.num_hidden_groups else {}
    return replace(config, model={**config.model, "num_hidden_layers": depth, **groups})


def _step_seconds(config: PlanConfig, device: torch.device, precision: str, sequences: int, seconds: float) -> float:
    """The median time of a training step."""
    work = workload_of(config)
    job = _Job(config, work, device, precision, sequences)
    job.run(WARM_UP)
    job.run(min(max(int(seconds / job.median), FEWEST), MOST))
    return job.median


class _Job:
    """Training steps on random text, each one timed."""

    def __init__(
        self, config: PlanConfig, work: Workload, device: torch.device, precision: str, sequences: int
    ) -> None:
        network, vocab_size = work.config, work.config.vocab_size
        masker = Masker(MASK, frozenset(range(SPECIAL)), vocab_size, config.mask_rate)
        share = config.generator_share or GENERATOR_SHARE
        recipe = Recipe(CLS, SEP, masker, work.length, 0.0, share)
        self.objective: MaskedLanguageModelling = registry.resolve("objective", config.objective)(recipe)
        self.model: nn.Module = self.objective.network(network, seed=0).to(device)
        for part in self.model.modules():
            if hasattr(part, "compute_dtype"):
                part.compute_dtype = DTYPES[precision]
                part.recomputes = config.activation_checkpointing
        self.sequences, self.device, self.marks = sequences, device, [0.0]
        # Documents so long that each gives its share of the sequences of a step.
        self.text = RandomText(vocab_size, work.length * (sequences // DOCUMENTS + 2))

    def run(self, steps: int) -> None:
        """Train for so many steps; the times of their beginnings and of the end are the marks."""
        self.marks = []
        never = steps + 1
        settings = LoopSettings(steps, 1e-4, 0.0, "constant", 0.01, 1.0, 0, never, never, never)
        train(self, settings, name="probe")
        self.marks.append(time.perf_counter())

    @property
    def median(self) -> float:
        """Seconds of a step."""
        return median(later - earlier for earlier, later in zip(self.marks, self.marks[1:], strict=False))

    def micro_batches(self, step: int) -> list[Batch]:
        """One batch of random text."""
        self.marks.append(time.perf_counter())
        rng = generator(0, "probe", step)
        examples = self.objective.plan(self.text.bounds, rng)[: self.sequences]
        return [self.objective.batch(self.text, examples, rng).to(self.device)]

    def counts(self, batch: Batch) -> dict[str, int]:
        """Labels of each part in a batch."""
        return self.objective.counts(batch)

    def outcome(self, batch: Batch) -> Outcome:
        """The losses of a batch."""
        return self.objective.outcome(self.model, batch)

    def evaluate(self, step: int) -> dict[str, float]:
        """Nothing is scored."""
        return {}

    def should_stop(self) -> bool:
        """All steps are run."""
        return False

    def state(self) -> dict[str, Any]:
        """Nothing is kept."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Never asked for."""
        raise AssertionError("a probe keeps no checkpoints")
