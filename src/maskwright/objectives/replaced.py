"""Replaced token detection (Clark et al. 2020, section 2).

A small generator is trained as a masked language model. Its samples replace the masks, and the discriminator classifies
every token as original or replaced; a sample that equals the original token counts as original. The loss is the
generator's plus 50 times the discriminator's (equation 3), without gradient through the sampling. The masking
probability, 15%, all of them [MASK] (equation 1), is set in the recipe.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..core.config import check
from ..core.errors import InputError
from ..core.randomness import derive_seed
from ..data.batch import Batch
from ..models.build import build, initialize
from ..models.config import ModelConfig
from ..models.model import Model
from ..report import Command
from .audit import AuditedSequence, audit
from .fitting import GENERATOR_SHARE, TrainedNetwork, TrainedNetworks
from .masked import MaskedLanguageModeling
from .outcome import LossSums, score_classes
from .segments import Example
from .stream import Tokens

# -- The two networks: a small generator, and the discriminator, which is the final model ------------------------------
#
# They share the token, position and segment tables and the embedding norm (Clark et al. 2020, section 3.2, and its
# published code); the generator projects embeddings to its own hidden size.

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
        num_key_value_heads=config.num_key_value_heads and math.gcd(heads, config.num_key_value_heads),
        mlm_dense=True,  # projects to the size of the shared table
        intermediate_size=max(round(config.intermediate_size * share), 1),
        embedding_size=config.table_size if hidden_size != config.table_size else None,
    )


class ReplacedTokenPair(nn.Module):
    """Generator (masked language model) and discriminator (one logit per token), trained together.

    has_shared_tables: whether the generator gets the discriminator's tables; loaded networks have their own.
    """

    def __init__(self, discriminator: Model, generator: Model, *, has_shared_tables: bool = True) -> None:
        super().__init__()
        self.discriminator, self.generator = discriminator, generator
        if has_shared_tables:
            for name in SHARED:
                setattr(generator.encoder.embeddings, name, getattr(discriminator.encoder.embeddings, name))
        self.train(discriminator.training)

    @property
    def config(self) -> ModelConfig:
        return self.discriminator.config

    @property
    def num_parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters())


def build_generator(config: ModelConfig, share: float, seed: int) -> Model:
    """Returns a generator with random weights for the discriminator `config`, independent of its weights."""
    generator = Model(generator_config(config, share), "mlm")
    initialize(generator, config.initializer_range, derive_seed(seed, "generator"))
    return generator


# -- The objective ---------------------------------------------------------------------------------------------------


class ReplacedTokenDetection(MaskedLanguageModeling):
    """Detects tokens replaced by a generator. One segment, [CLS] A [SEP]; every token is classified."""

    name: ClassVar[str] = "rtd"
    head: ClassVar[str] = "rtd"
    parts: ClassVar[tuple[str, ...]] = ("mlm", "rtd")
    num_networks: ClassVar[int] = 2

    @classmethod
    def make(cls, config: ModelConfig, generator_share: float = GENERATOR_SHARE) -> nn.Module:
        return ReplacedTokenPair(Model(config, "rtd"), Model(generator_config(config, generator_share), "mlm"))

    @classmethod
    def uses(cls, model: Path) -> list[Command]:
        return super().uses(model / "generator")

    @classmethod
    def trained_networks(cls, config: ModelConfig, mask_rate: float, generator_share: float) -> TrainedNetworks:
        generator = TrainedNetwork(generator_config(config, generator_share), words=mask_rate, stores_logits=True)
        return generator, TrainedNetwork(config, tokens=1.0)

    def network(self, config: ModelConfig, seed: int) -> nn.Module:
        return ReplacedTokenPair(
            build(config, self.head, seed=seed).train(), build_generator(config, self.recipe.generator_share, seed)
        )

    def final_model(self, model: nn.Module) -> Model:
        return model.discriminator if isinstance(model, ReplacedTokenPair) else super().final_model(model)

    def token_predictor(self, model: nn.Module) -> Model:
        return self.pair(model).generator

    def trained(self, model: Model, generator: Model | None) -> nn.Module:
        if generator is None:
            raise InputError(
                "Scoring a replaced-token discriminator requires its generator, and this folder has none: "
                "pretrain --objective rtd writes it as generator/ in the model folder."
            )
        if generator.config.vocab_size != model.config.vocab_size:
            raise InputError(
                "The generator and the model have different vocabularies: use the generator of this model."
            )
        return ReplacedTokenPair(model, generator, has_shared_tables=False)

    def pair(self, model: nn.Module) -> ReplacedTokenPair:
        """Returns both networks. A single discriminator gets an untrained generator of seed 0, as at the first step."""
        if isinstance(model, ReplacedTokenPair):
            return model
        assert isinstance(model, Model)
        generator = build_generator(model.config, self.recipe.generator_share, 0).to(model.word_embeddings.device)
        generator.compute_dtype = model.compute_dtype
        return ReplacedTokenPair(model, generator)

    def batch(self, documents: Tokens, examples: Sequence[Example], rng: np.random.Generator) -> Batch:
        """Packs examples and masks all selected tokens with [MASK].

        Labels: "mlm_positions", "mlm", and for these positions "draws", random numbers in [0, 1) for the generator's
        samples ("draws_positions": the same positions). The samples are thus part of the batch: a function of the seed
        and the step, the same after a resume and in any other pack.
        """
        batch = super().batch(documents, examples, rng)
        positions = batch.labels["mlm_positions"]
        masked = batch.input_ids.clone()
        masked[positions] = self.recipe.masker.mask_id
        draws = torch.from_numpy(rng.random(len(positions), dtype=np.float32))
        return replace(batch, input_ids=masked).with_labels(draws=draws, draws_positions=positions)

    def shown(self, model: nn.Module, batch: Batch, token_of: Callable[[int], str]) -> list[AuditedSequence]:
        generator = self.token_predictor(model)
        with torch.inference_mode():
            logits = generator.mlm_logits(generator.encode(batch).hidden[batch.labels["mlm_positions"]])
        return audit(replace_with_samples(batch, logits)[0], token_of, None, changed="replaced")

    def counts(self, batch: Batch) -> dict[str, int]:
        return {"mlm": len(batch.labels["mlm"]), "rtd": batch.num_tokens}

    def outcome(self, model: nn.Module, batch: Batch) -> LossSums:
        """Losses and scores of both networks; the baseline of "rtd" predicts "original" for every token."""
        pair = self.pair(model)
        hidden = pair.generator.encode(batch).hidden  # [tokens, generator's hidden]
        predictions = pair.generator.mlm_logits(hidden[batch.labels["mlm_positions"]]).float()  # [labels, vocab]
        replaced, is_replaced = replace_with_samples(batch, predictions.detach())
        logits = pair.discriminator.logits(replaced).float()  # [tokens]
        losses = {
            "mlm": F.cross_entropy(predictions, batch.labels["mlm"], reduction="sum"),
            "rtd": F.binary_cross_entropy_with_logits(logits, is_replaced.float(), reduction="sum"),
        }
        scores = {
            "mlm": self.scorer.score(predictions.detach(), batch.labels["mlm"]),
            "rtd": score_classes(logits.detach() > 0, is_replaced),
        }
        return LossSums(losses, self.counts(batch), weights={"rtd": self.recipe.rtd_weight}, scores=scores)


def draw(logits: Tensor, draws: Tensor) -> Tensor:
    """Samples one token per row from the softmax of its logits, by inverse transform sampling.

    logits: float [labels, vocab]; draws: float [labels], uniform in [0, 1). Returns int64 [labels].
    """
    cumulated = logits.float().softmax(dim=-1).cumsum(dim=-1)  # [labels, vocab]
    # Rounding makes the total differ slightly from 1: scale the draws by it.
    wanted = draws.unsqueeze(1) * cumulated[:, -1:]
    drawn = torch.searchsorted(cumulated, wanted, right=True).squeeze(1)  # [labels]
    return drawn.clamp_(max=logits.shape[1] - 1)


def replace_with_samples(batch: Batch, logits: Tensor) -> tuple[Batch, Tensor]:
    """Replaces the masks by samples of the generator. Returns the batch, and which tokens differ: bool [tokens].

    logits: float [labels, vocab], the generator's.
    """
    positions, right = batch.labels["mlm_positions"], batch.labels["mlm"]
    drawn = draw(logits, batch.labels["draws"])  # [labels]
    input_ids = batch.input_ids.clone()
    input_ids[positions] = drawn
    is_replaced = torch.zeros_like(input_ids, dtype=torch.bool)
    is_replaced[positions] = drawn != right
    return replace(batch, input_ids=input_ids), is_replaced
