"""Replaced-token detection (Clark et al. 2020, section 2).

A small generator guesses masked tokens as a masked language model does. What it draws takes the place of the masks, and
the discriminator says of every token whether it was replaced; a token that the generator drew right counts as original.
The loss is the generator's plus 50 times the discriminator's (equation 3); no gradient passes through the draw. The
share of masks, 15 %, all of them [MASK] (equation 1), is that of the recipe.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..data.batch import Batch
from ..models.config import ModelConfig
from ..models.model import Model, build
from .audit import AuditedSequence, audit
from .outcome import Outcome
from .pretraining import GENERATOR_SHARE, MaskedLanguageModelling, Tokens
from .replaced_pair import ReplacedTokenPair, build_generator
from .segments import Example


class ReplacedTokenDetection(MaskedLanguageModelling):
    """Which tokens did the generator put in? One segment, [CLS] A [SEP]; every token is judged."""

    name: ClassVar[str] = "rtd"
    head: ClassVar[str] = "rtd"
    parts: ClassVar[tuple[str, ...]] = ("mlm", "rtd")

    @classmethod
    def make(cls, config: ModelConfig, generator_share: float = GENERATOR_SHARE) -> nn.Module:
        """Both networks, unfilled."""
        return ReplacedTokenPair(config, generator_share)

    def network(self, config: ModelConfig, seed: int) -> nn.Module:
        """Both networks at their first step."""
        return ReplacedTokenPair.beside(
            build(config, self.head, seed=seed).train(), build_generator(config, self.recipe.generator_share, seed)
        )

    def kept(self, model: nn.Module) -> Model:
        """The discriminator."""
        return model.discriminator if isinstance(model, ReplacedTokenPair) else super().kept(model)

    def guesser(self, model: nn.Module) -> Model:
        """The generator."""
        return self.pair(model).generator

    def pair(self, model: nn.Module) -> ReplacedTokenPair:
        """Both networks. A discriminator alone plays against an untrained generator of seed 0, as at the first step."""
        if isinstance(model, ReplacedTokenPair):
            return model
        assert isinstance(model, Model)
        generator = build_generator(model.config, self.recipe.generator_share, 0).to(model.word_embeddings.device)
        generator.compute_dtype = model.compute_dtype
        return ReplacedTokenPair.beside(model, generator)

    def batch(self, documents: Tokens, examples: Sequence[Example], rng: np.random.Generator) -> Batch:
        """Pack examples and mask them all by [MASK].

        Labels: "mlm_positions", "mlm", and for each of these positions "draws", a number in [0, 1) that decides what
        the generator draws there ("draws_positions": the same positions). So the draw is part of the batch: a function
        of the run's seed and the step, the same after a resume and in any other pack.
        """
        batch = super().batch(documents, examples, rng)
        positions = batch.labels["mlm_positions"]
        masked = batch.input_ids.clone()
        masked[positions] = self.recipe.masker.mask_id
        draws = torch.from_numpy(rng.random(len(positions), dtype=np.float32))
        return replace(batch, input_ids=masked).with_labels(draws=draws, draws_positions=positions)

    def shown(self, model: nn.Module, batch: Batch, token_of: Callable[[int], str]) -> list[AuditedSequence]:
        """What the discriminator sees: which token the generator replaced by which, and where it drew the right one."""
        generator = self.guesser(model)
        with torch.inference_mode():
            logits = generator.mlm_logits(generator.encode(batch).hidden[batch.labels["mlm_positions"]])
        return audit(play(batch, logits)[0], token_of, None, changed="replaced")

    def counts(self, batch: Batch) -> dict[str, int]:
        """Masked tokens, and all tokens."""
        return {"mlm": len(batch.labels["mlm"]), "rtd": batch.num_tokens}

    def outcome(self, model: nn.Module, batch: Batch) -> Outcome:
        """Losses and right answers of both networks; the baseline of "rtd" is to call every token original."""
        pair = self.pair(model)
        hidden = pair.generator.encode(batch).hidden  # [tokens, generator's hidden]
        guesses = pair.generator.mlm_logits(hidden[batch.labels["mlm_positions"]]).float()  # [labels, vocab]
        played, is_replaced = play(batch, guesses.detach())
        logits = pair.discriminator.logits(played).float()  # [tokens]
        losses = {
            "mlm": F.cross_entropy(guesses, batch.labels["mlm"], reduction="sum"),
            "rtd": F.binary_cross_entropy_with_logits(logits, is_replaced.float(), reduction="sum"),
        }
        correct = {
            "mlm": (guesses.detach().argmax(dim=-1) == batch.labels["mlm"]).sum(),
            "rtd": ((logits.detach() > 0) == is_replaced).sum(),
        }
        weights = {"rtd": self.recipe.rtd_weight}
        return Outcome(losses, self.counts(batch), correct, weights, {"rtd": (~is_replaced).sum()})


def draw(logits: Tensor, draws: Tensor) -> Tensor:
    """One token for each row by the softmax of its logits: the first whose cumulated probability is above the draw.

    logits: float [labels, vocab]; draws: float [labels], uniform in [0, 1). Returns int64 [labels].
    """
    cumulated = logits.float().softmax(dim=-1).cumsum(dim=-1)  # [labels, vocab]
    # Rounding leaves the last sum a little beside 1: draws are measured by it.
    wanted = draws.unsqueeze(1) * cumulated[:, -1:]
    drawn = torch.searchsorted(cumulated, wanted, right=True).squeeze(1)  # [labels]
    return drawn.clamp_(max=logits.shape[1] - 1)


def play(batch: Batch, logits: Tensor) -> tuple[Batch, Tensor]:
    """The batch with what the generator draws in the place of masks, and which tokens are replaced by it.

    logits: float [labels, vocab], the generator's. Returns the batch, and bool [tokens].
    """
    positions, right = batch.labels["mlm_positions"], batch.labels["mlm"]
    drawn = draw(logits, batch.labels["draws"])  # [labels]
    input_ids = batch.input_ids.clone()
    input_ids[positions] = drawn
    is_replaced = torch.zeros_like(input_ids, dtype=torch.bool)
    is_replaced[positions] = drawn != right
    return replace(batch, input_ids=input_ids), is_replaced
