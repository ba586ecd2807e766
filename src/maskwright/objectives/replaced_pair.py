"""The two networks of replaced token detection: a small generator, and the discriminator, which is the final model.

They share the token, position and segment tables and the embedding norm (Clark et al. 2020, section 3.2, and its
published code); the generator projects embeddings to its own hidden size.
"""

from __future__ import annotations

from dataclasses import replace

from torch import nn

from ..core.config import check
from ..core.randomness import derive_seed
from ..models.build import initialize
from ..models.config import ModelConfig
from ..models.model import Model

GENERATOR_SHARE = 0.25  # of the discriminator's size
RTD_WEIGHT = 50.0  # of the discriminator's loss (equation 3)
SHARED = ("word", "position", "token_type", "norm")


def generator_config(config: ModelConfig, share: float = GENERATOR_SHARE) -> ModelConfig:
    """Returns the generator's configuration: the discriminator's depth, and its sizes times `share`.

    Head dimensions are preserved up to rounding. Raises ConfigError for a fraction outside (0, 1].
    """
    check(0 < share <= 1, f"generator_share is {share}; it must be above 0 and at most 1.")
    heads = max(round(config.num_attention_heads * share), 1)
    step = 2 if config.positions == "rotary" else 1  # rotary positions need an even head dimension
    hidden_size = max(round(config.hidden_size * share / heads / step), 1) * step * heads
    return replace(
        config,
        hidden_size=hidden_size,
        num_attention_heads=heads,
        intermediate_size=max(round(config.intermediate_size * share), 1),
        embedding_size=config.table_size if hidden_size != config.table_size else None,
    )


class ReplacedTokenPair(nn.Module):
    """Generator (masked language model) and discriminator (one logit per token), trained together.

    config: the discriminator's; share: generator size as a fraction of it. Parameters are not initialized here.
    """

    def __init__(self, config: ModelConfig, share: float = GENERATOR_SHARE) -> None:
        super().__init__()
        self.discriminator, self.generator = Model(config, "rtd"), Model(generator_config(config, share), "mlm")
        self._share_tables()

    @classmethod
    def with_shared_tables(cls, discriminator: Model, generator: Model) -> ReplacedTokenPair:
        """Combines two existing networks; the generator gets the discriminator's tables."""
        pair = cls.from_separate_networks(discriminator, generator)
        pair._share_tables()
        return pair

    @classmethod
    def from_separate_networks(cls, discriminator: Model, generator: Model) -> ReplacedTokenPair:
        """Combines two existing networks with separate tables, such as loaded ones."""
        pair = cls.__new__(cls)
        nn.Module.__init__(pair)
        pair.discriminator, pair.generator = discriminator, generator
        return pair.train(discriminator.training)

    def _share_tables(self) -> None:
        ours, theirs = self.generator.encoder.embeddings, self.discriminator.encoder.embeddings
        for name in SHARED:
            setattr(ours, name, getattr(theirs, name))

    @property
    def config(self) -> ModelConfig:
        """The discriminator's configuration."""
        return self.discriminator.config

    @property
    def num_parameters(self) -> int:
        """Number of parameters of both networks; shared ones count once."""
        return sum(parameter.numel() for parameter in self.parameters())


def build_generator(config: ModelConfig, share: float, seed: int) -> Model:
    """Returns a generator with random weights for the discriminator `config`, independent of its weights."""
    generator = Model(generator_config(config, share), "mlm")
    initialize(generator, config.initializer_range, derive_seed(seed, "generator"))
    return generator
