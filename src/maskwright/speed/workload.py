"""FLOPs and memory of the networks that a pre-training objective trains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from ..core import registry
from ..core.config import check
from ..core.errors import ConfigError
from ..data.batch import Batch
from ..models import sizes as flops
from ..models.config import ModelConfig
from ..models.presets import preset
from ..models.sizes import TrainingMemory, training_memory
from ..objectives.base import Objective
from ..objectives.denoising import Denoising
from ..objectives.fitting import GENERATOR_SHARE, TrainedNetwork, check_fits
from ..objectives.segments import Example
from ..objectives.stream import Tokens
from .plan_config import TRANSLATION, PlanConfig

# -- Translation as a training load: pairs of texts of equal length, as in `finetune translation` --------------------


class Translation(Denoising):
    """Each text is its own target, so source and target have as many tokens."""

    @classmethod
    def trained_networks(
        cls, config: ModelConfig, mask_rate: float, generator_share: float
    ) -> tuple[TrainedNetwork, ...]:
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
