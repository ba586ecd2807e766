"""FLOPs and memory of the networks that a pre-training objective trains, and how fast this machine trains them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from ..core import registry
from ..core.config import check
from ..core.errors import ConfigError
from ..core.randomness import generator
from ..data.batch import Batch
from ..models import sizes as flops
from ..models.config import ModelConfig
from ..models.device import DTYPES
from ..models.model import Model
from ..models.presets import preset
from ..models.sizes import TrainingMemory, training_memory
from ..objectives.base import Objective
from ..objectives.denoising import Denoising
from ..objectives.fitting import GENERATOR_SHARE, TrainedNetwork, TrainedNetworks, check_fits
from ..objectives.masked import MaskedRecipe, Masker
from ..objectives.outcome import LossSums
from ..objectives.segments import Example
from ..objectives.stream import Tokens
from ..train.loop import LoopSettings, train
from .plan_config import TRANSLATION, PlanConfig

# -- Translation as a training load: pairs of texts of equal length, as in `finetune translation` --------------------


class Translation(Denoising):
    """Each text is its own target, so source and target have as many tokens."""

    @classmethod
    def trained_networks(cls, config: ModelConfig, mask_rate: float, generator_share: float) -> TrainedNetworks:
        """Return the network, which scores every token of the target."""
        return (TrainedNetwork(config, words=0.5, source=0.5, target=0.5),)

    def batch(self, documents: Tokens, examples: Sequence[Example], rng: np.random.Generator) -> Batch:
        """Pack examples as pairs."""
        texts = [
            np.asarray(documents.document_tokens(one.a_document)[one.a_start : one.a_stop], dtype=np.int64)
            for one in sorted(examples, key=lambda one: one.a_stop - one.a_start)
        ]
        begin, end = [self.recipe.cls_id], [self.recipe.sep_id]
        labels = {"denoise": torch.from_numpy(np.concatenate([np.concatenate([text, end]) for text in texts]))}
        batch = Batch.from_sequences([np.concatenate([begin, text, end]) for text in texts], None, labels)
        return replace(batch, target=Batch.from_sequences([np.concatenate([begin, text]) for text in texts]))


# -- Model FLOPs utilization (Chowdhery et al. 2022, appendix B) -----------------------------------------------------
#
# Counts the matrix products of real tokens at their real lengths and of the vocabulary at scored positions
# (`models/sizes.py`), not padding, unneeded scores or recomputed activations. So the utilizations of two
# implementations of the same training compare as their speeds do.


def forward_flops(config: ModelConfig, lengths: Sequence[int] | np.ndarray) -> float:
    """Return the FLOPs of one forward pass of the encoder over sequences of these lengths."""
    sizes, counts = np.unique(np.asarray(lengths, dtype=np.int64), return_counts=True)
    return float(
        sum(
            size * count * (flops.linear_flops(config) + flops.attention_flops(config, int(size)))
            for size, count in zip(sizes.tolist(), counts.tolist(), strict=True)
        )
    )


def training_flops(
    config: ModelConfig, lengths: Sequence[int] | np.ndarray, num_scored: int = 0, num_classified: int = 0
) -> float:
    """Return the FLOPs of a training step, forward and backward.

    num_scored: positions with scores over the vocabulary; num_classified: sequences with a two-class head.
    """
    heads = num_scored * flops.word_head_flops(config) + num_classified * flops.sequence_head_flops(config)
    return flops.TRAINING_PASSES * (forward_flops(config, lengths) + heads)


@dataclass(frozen=True)
class Flops:
    """Training FLOPs per token, forward and backward: linear layers, attention, heads."""

    linear: float
    attention: float
    head: float

    @property
    def total(self) -> float:
        """Sum of all parts."""
        return self.linear + self.attention + self.head

    @property
    def recomputed(self) -> float:
        """FLOPs that activation checkpointing adds: one more forward pass of the layers."""
        return (self.linear + self.attention) / flops.TRAINING_PASSES


@dataclass(frozen=True)
class Workload:
    """Networks of a run.

    networks: the trained networks, the main one last; num_parameters: total, tied ones once; length: tokens per
    sequence, or per pair of source and target.
    """

    networks: tuple[TrainedNetwork, ...]
    num_parameters: int
    length: int

    @property
    def config(self) -> ModelConfig:
        """Configuration of the main network, which is saved."""
        return self.networks[-1].config

    @property
    def num_layers(self) -> int:
        """Layers of the main network, of encoder and decoder."""
        return self.config.num_hidden_layers + self.config.num_decoder_layers

    def flops(self) -> Flops:
        """Return the training FLOPs per token."""
        linear = attention = head = 0.0
        for one in self.networks:
            own_linear, own_attention = flops.text_flops(one.config, *one.lengths(self.length))
            linear += own_linear / self.length
            attention += own_attention / self.length
            head += one.words * flops.word_head_flops(one.config) + one.tokens * flops.token_head_flops(one.config)
            head += flops.sequence_head_flops(one.config) / self.length if one.classifies_pairs else 0.0
        passes = flops.TRAINING_PASSES
        return Flops(passes * linear, passes * attention, passes * head)

    def memory(self, sequences: int, precision: str, on_cpu: bool, recomputed: bool = False) -> TrainingMemory:
        """Return the memory of one micro-batch of `sequences`. recomputed: with activation checkpointing."""
        parts = [
            training_memory(
                one.config,
                self.num_parameters if one is self.networks[-1] else 0,
                length=one.lengths(self.length)[0],
                target=one.lengths(self.length)[1],
                sequences=sequences,
                scored=one.words * sequences * self.length,
                precision=precision,
                on_cpu=on_cpu,
                in_parts=not one.stores_logits,
                recomputed=recomputed,
            )
            for one in self.networks
        ]
        names = ("weights", "gradients", "optimizer", "cast_weights", "activations", "logits")
        return TrainingMemory(**{name: sum(getattr(part, name) for part in parts) for name in names})


def workload_of(config: PlanConfig) -> Workload:
    """Return the networks that a run trains. Raises ConfigError for an unsupported objective."""
    objective = objective_of(config)
    network = network_of(config, objective.network_settings)
    share = config.generator_share or GENERATOR_SHARE
    networks = objective.trained_networks(network, config.mask_rate, share)
    if not networks:
        raise ConfigError(f"The objective '{config.objective}' is not supported by `plan`.")
    with torch.device("meta"):
        num_parameters = sum(parameter.numel() for parameter in objective.make(network, share).parameters())
    return Workload(networks, num_parameters, config.text_tokens)


def objective_of(config: PlanConfig) -> type[Objective]:
    """Return the objective of a run. Raises InputError unless it fits the network."""
    published = preset(config.preset, **config.model)
    if config.objective == TRANSLATION:
        check(
            bool(published.num_decoder_layers),
            f"Objective {TRANSLATION} needs {Translation.needs}, which {config.preset} is not.",
        )
        return Translation
    check_fits(config.objective, published, config.preset)
    found: type[Objective] = registry.resolve("objective", config.objective)
    return found


def network_of(config: PlanConfig, decided: dict[str, Any]) -> ModelConfig:
    """Return the model configuration of a run.

    decided: settings that the objective fixes. Raises ConfigError for recurrent networks.
    """
    changes = {**decided, **config.model}
    if config.vocab_size is not None:
        changes["vocab_size"] = config.vocab_size
    published = preset(config.preset, **changes)
    if published.recurrent is not None:
        raise ConfigError(f"{config.preset} is a recurrent network; `plan` supports Transformers only.")
    positions = max(published.max_position_embeddings, config.max_length)  # as in `pretrain`
    return preset(config.preset, **{**changes, "max_position_embeddings": positions})


# -- The peak of this machine's matrix products, and its training speed from a few real steps -------------------------
#
# The time of a step is linear in the number of layers. Two shallow models are trained for some steps in the full
# training loop, and the time is extrapolated to the full depth. A shallow model is trained as it is.


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
    # Two depths: one layer, and one more cycle of layer types; or the full depth. A decoder is as deep as its encoder;
    # if the full depths differ, the full network is trained.
    layers, deeper = network.num_hidden_layers, 1 + max(network.full_attention_every, 2)
    depths = (layers,) if layers <= deeper or network.num_decoder_layers not in (0, layers) else (1, deeper)
    deepest = _at_depth(config, work, depths[-1])
    affordable = STEP_SECONDS * EXPECTED_UTILIZATION * ceiling / (workload_of(deepest).flops().total * work.length)
    sequences = min(sequences, max(int(affordable), MIN_TOKENS // work.length, 1))
    seconds = config.probe_seconds / len(depths)
    times = [_step_seconds(_at_depth(config, work, depth), device, precision, sequences, seconds) for depth in depths]
    whole = times[0]
    if len(depths) > 1:
        layer = max((times[1] - times[0]) / (depths[1] - depths[0]), 0.0)
        whole += layer * (layers - depths[0])
    return ProbeResult(sequences * work.length / whole, depths, sequences, ceiling)


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
