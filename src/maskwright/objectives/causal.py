"""Left-to-right language modelling: guess each token from those before it (Radford et al. 2018, equation 1).

Every ordinary token of [CLS] A [SEP] is guessed at the token before it; [SEP] is not, since it says where an example
was cut and not where the text ends. So nearly every position has a label, where masked language modelling has 15 %.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from ..data.batch import Batch
from .audit import AuditedSequence, audit
from .outcome import Outcome
from .pretraining import MaskedLanguageModelling, Tokens
from .segments import Example


class NextTokenPrediction(MaskedLanguageModelling):
    """Guess the next token at every token, in a network whose tokens see none of those that follow."""

    name: ClassVar[str] = "clm"
    head: ClassVar[str] = "clm"
    parts: ClassVar[tuple[str, ...]] = ("clm",)
    words: ClassVar[str] = "clm"
    network_settings: ClassVar[dict[str, Any]] = {"attention": "causal", "full_attention_every": 0}

    def batch(self, documents: Tokens, examples: Sequence[Example], rng: np.random.Generator) -> Batch:
        """Pack examples, shortest first. Labels: "clm_positions", where a token is guessed, and "clm", which one."""
        batch, _ = self._pack(documents, examples)
        is_guessed = ~torch.from_numpy(self.recipe.masker.is_special)[batch.input_ids]  # [tokens]
        is_guessed[batch.first_tokens] = False
        guessed = is_guessed.nonzero().squeeze(1)  # [labels]
        return batch.with_labels(clm_positions=guessed - 1, clm=batch.input_ids[guessed])

    def shown(self, model: nn.Module, batch: Batch, token_of: Callable[[int], str]) -> list[AuditedSequence]:
        """The text as it is, with the tokens that are guessed from those before them."""
        labels = {"mlm_positions": batch.labels["clm_positions"] + 1, "mlm": batch.labels["clm"]}
        return audit(batch.with_labels(**labels), token_of, None, unchanged="next")

    def outcome(self, model: nn.Module, batch: Batch) -> Outcome:
        """Loss and right answers of a batch; the vocabulary is scored where there is a label."""
        network = self.kept(model)
        vectors = network.encode(batch).hidden[batch.labels["clm_positions"]]  # [labels, hidden]
        loss, right = network.mlm_loss(vectors, batch.labels["clm"])
        return Outcome({"clm": loss}, self.counts(batch), {"clm": right})
