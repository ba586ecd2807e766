"""Which objectives can train a network, and which one a run uses where none is named."""

from __future__ import annotations

from dataclasses import dataclass

from ..core import registry
from ..core.errors import InputError
from ..models.config import ModelConfig

# -- What an objective computes, for estimates of time and memory ----------------------------------------------------


@dataclass(frozen=True)
class TrainedNetwork:
    """One network of a run and its heads.

    words: fraction of tokens with scores over the vocabulary; tokens: fraction with replaced-token detection;
    classifies_pairs: whether every sequence is classified; stores_logits: whether all vocabulary scores are in memory
    at once; source, target: tokens of the encoder and of the decoder per token of text.
    """

    config: ModelConfig
    words: float = 0.0
    tokens: float = 0.0
    classifies_pairs: bool = False
    stores_logits: bool = False
    source: float = 1.0
    target: float = 0.0

    def lengths(self, length: int) -> tuple[int, int]:
        return max(round(self.source * length), 1), round(self.target * length)


TrainedNetworks = tuple[TrainedNetwork, ...]


GENERATOR_SHARE = 0.25  # size of the generator of replaced token detection, of the discriminator's
RTD_WEIGHT = 50.0  # of the discriminator's loss (Clark et al. 2020, equation 3)
GENERAL = "mlm"  # for every encoder that sees both sides of a token
PUBLISHED = {"bert": "mlm+nsp", "albert": "mlm+sop", "electra": "rtd"}  # objective of a family's paper


def usual_objective(network: ModelConfig, *, is_trained: bool = False) -> str:
    """Returns the objective of a network for which none is named.

    is_trained: pre-training continues from a model; then an encoder learns from masked tokens alone.
    """
    if network.num_decoder_layers:
        return "denoise"
    if network.pools_last_token:
        return "clm"
    if network.separate_directions:
        return "bilm"
    is_generator = network.table_size > network.hidden_size  # ELECTRA's is narrower than the embeddings that it shares
    return GENERAL if is_trained or is_generator else PUBLISHED.get(network.family, GENERAL)


def fitting_objectives(network: ModelConfig, *, is_trained: bool = False) -> list[str]:
    """Returns the names of all objectives that can train a network, the usual one first. is_trained: as above."""
    usual = usual_objective(network, is_trained=is_trained)
    found = [name for name in registry.names("objective") if not _lacking(name, network, is_trained)]
    return sorted(found, key=lambda name: name != usual)


def check_fits(name: str, network: ModelConfig, title: str, *, is_trained: bool = False) -> None:
    """Raises InputError, with the objectives that fit, unless the objective `name` can train a network.

    title: of the network, in messages; is_trained: as above.
    """
    lacking = _lacking(name, network, is_trained)
    if lacking:
        fitting = " or ".join(fitting_objectives(network, is_trained=is_trained))
        instead = f"use --objective {fitting}" if fitting else "train static embeddings with maskwright vectors"
        pairs = ", or train it on text pairs with maskwright finetune translation" if network.num_decoder_layers else ""
        raise InputError(f"Objective {name} needs {lacking}, which {title} is not: {instead}{pairs}.")


def _lacking(name: str, network: ModelConfig, is_trained: bool) -> str:
    """What an objective needs and a network is not; "" if nothing. The settings of a trained network are fixed."""
    objective = registry.resolve("objective", name)
    if is_trained and objective.num_networks > 1:
        return "random weights"
    if not objective.fits(network):
        return str(objective.needs)
    settings = objective.network_settings.items() if is_trained else ()
    wrong = [f"{setting}={value}" for setting, value in settings if getattr(network, setting) != value]
    return f"a network with {' and '.join(wrong)}" if wrong else ""
