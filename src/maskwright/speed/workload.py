"""What is trained, and what one token of it costs: the networks of an objective, their operations and their memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from ..core import registry
from ..core.errors import ConfigError
from ..models import flops
from ..models.config import ModelConfig
from ..models.memory import TrainingMemory, training_memory
from ..models.presets import preset
from ..objectives.pretraining import GENERATOR_SHARE
from ..objectives.replaced_pair import generator_config
from .plan_config import PlanConfig


@dataclass(frozen=True)
class Network:
    """One network of a run, and what its heads judge.

    words: share of the tokens at which the whole vocabulary is scored; tokens: share that is judged for replacement;
    judges_pairs: whether every sequence is judged; holds_scores: whether all scores of words are held at once.
    """

    config: ModelConfig
    words: float = 0.0
    tokens: float = 0.0
    judges_pairs: bool = False
    holds_scores: bool = False


@dataclass(frozen=True)
class Flops:
    """Of one token in training, all passes: layers' matrices, attention, heads."""

    linear: float
    attention: float
    head: float

    @property
    def total(self) -> float:
        """All of them."""
        return self.linear + self.attention + self.head

    @property
    def recomputed(self) -> float:
        """What activation checkpointing adds: the layers' forward pass once more."""
        return (self.linear + self.attention) / flops.TRAINING_PASSES


@dataclass(frozen=True)
class Workload:
    """networks: what is trained, the largest last; num_parameters: of all, shared ones once; length: of a sequence."""

    networks: tuple[Network, ...]
    num_parameters: int
    length: int

    @property
    def config(self) -> ModelConfig:
        """The network that is kept in the end."""
        return self.networks[-1].config

    def flops(self) -> Flops:
        """Of one token in training."""
        linear = attention = head = 0.0
        for one in self.networks:
            linear += flops.linear_flops(one.config)
            attention += flops.attention_flops(one.config, self.length)
            head += one.words * flops.word_head_flops(one.config) + one.tokens * flops.token_head_flops(one.config)
            head += flops.sequence_head_flops(one.config) / self.length if one.judges_pairs else 0.0
        passes = flops.TRAINING_PASSES
        return Flops(passes * linear, passes * attention, passes * head)

    def memory(self, sequences: int, precision: str, on_cpu: bool, recomputed: bool = False) -> TrainingMemory:
        """Of one micro-batch of `sequences`. recomputed: with activation checkpointing."""
        parts = [
            training_memory(
                one.config,
                self.num_parameters if one is self.networks[-1] else 0,
                length=self.length,
                sequences=sequences,
                scored=one.words * sequences * self.length,
                precision=precision,
                on_cpu=on_cpu,
                in_parts=not one.holds_scores,
                recomputed=recomputed,
            )
            for one in self.networks
        ]
        names = ("weights", "gradients", "optimizer", "cast_weights", "activations", "logits")
        return TrainingMemory(**{name: sum(getattr(part, name) for part in parts) for name in names})


def workload_of(config: PlanConfig) -> Workload:
    """The networks that a run trains. Raises ConfigError for an objective whose heads are not known here."""
    objective = registry.resolve("objective", config.objective)
    network = network_of(config, objective.network_settings)
    share = config.generator_share or GENERATOR_SHARE
    networks = {
        "mlm": (Network(network, words=config.mask_rate),),
        "pretraining": (Network(network, words=config.mask_rate, judges_pairs=True),),
        "clm": (Network(network, words=1.0),),
        "rtd": (
            Network(generator_config(network, share), words=config.mask_rate, holds_scores=True),
            Network(network, tokens=1.0),
        ),
    }
    if objective.head not in networks:
        raise ConfigError(f"No plan can be made for the objective '{config.objective}': its head is not known here.")
    with torch.device("meta"):
        num_parameters = objective.make(network, share).num_parameters
    return Workload(networks[objective.head], num_parameters, config.max_length)


def network_of(config: PlanConfig, decided: dict[str, Any]) -> ModelConfig:
    """The preset with the changes of a plan. decided: what the objective decides of it. Raises ConfigError for one that
    plans do not know.
    """
    changes = {**decided, **config.model}
    if config.vocab_size is not None:
        changes["vocab_size"] = config.vocab_size
    published = preset(config.preset, **changes)
    if published.num_decoder_layers:
        raise ConfigError(f"{config.preset} is an encoder-decoder; plans are for the pre-training of encoders.")
    if published.recurrent is not None:
        raise ConfigError(f"{config.preset} is a recurrent network; plans are for Transformers.")
    room = max(published.max_position_embeddings, config.max_length)  # as `pretrain` makes room
    return preset(config.preset, **{**changes, "max_position_embeddings": room})
