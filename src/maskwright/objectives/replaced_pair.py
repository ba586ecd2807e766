"""The two networks of replaced-token detection: a small generator and the discriminator that is kept.

They share the tables of tokens, positions and segments and the norm on their sum (Clark et al. 2020, section 3.2, and
its published code); the generator projects them to its own width.
"""

from __future__ import annotations

from dataclasses import replace

from torch import nn

from ..core.config import check
from ..core.randomness import derive_seed
from ..models.config import ModelConfig
from ..models.initialisation import initialise
from ..models.model import Model

SHARED = ("word", "position", "token_type", "norm")


def generator_config(config: ModelConfig, share: float = 0.25) -> ModelConfig:
    """The network of the generator: as deep as the discriminator `config`, its width times `share`.

    Heads keep their width as far as whole numbers allow. Raises ConfigError for a share outside (0, 1].
    """
    check(0 < share <= 1, f"The generator's share is {share}; it must be above 0 and at most 1.")
    heads = max(round(config.num_attention_heads * share), 1)
    step = 2 if config.positions == "rotary" else 1  # rotations turn pairs
    hidden_size = max(round(config.hidden_size * share / heads / step), 1) * step * heads
    return replace(
        config,
        hidden_size=hidden_size,
        num_attention_heads=heads,
        intermediate_size=max(round(config.intermediate_size * share), 1),
        embedding_size=config.table_size if hidden_size != config.table_size else None,
    )


class ReplacedTokenPair(nn.Module):
    """Generator (masked language model) and discriminator (one logit a token), trained together.

    config: the discriminator's; share: the generator's width as a share of it. Parameters are left unfilled, as a
    Model's are; `initialise` fills them.
    """

    def __init__(self, config: ModelConfig, share: float = 0.25) -> None:
        super().__init__()
        self.discriminator, self.generator = Model(config, "rtd"), Model(generator_config(config, share), "mlm")
        self._share_tables()

    @classmethod
    def beside(cls, discriminator: Model, generator: Model) -> ReplacedTokenPair:
        """Two networks that exist already, as one; the generator gets the discriminator's tables."""
        pair = cls.apart(discriminator, generator)
        pair._share_tables()
        return pair

    @classmethod
    def apart(cls, discriminator: Model, generator: Model) -> ReplacedTokenPair:
        """Two networks that exist already, each with tables of its own, as loaded from folders."""
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
        """Sizes of the discriminator."""
        return self.discriminator.config

    @property
    def num_parameters(self) -> int:
        """Numbers that training can change, in both; shared ones count once."""
        return sum(parameter.numel() for parameter in self.parameters())


def build_generator(config: ModelConfig, share: float, seed: int) -> Model:
    """A generator with random weights for the discriminator `config`; unrelated to the discriminator's of that seed."""
    generator = Model(generator_config(config, share), "mlm")
    initialise(generator, config.initializer_range, derive_seed(seed, "generator"))
    return generator
