"""Left-to-right language modelling: guess each token from those before it (Radford et al. 2018, equation 1).

Every ordinary token of [CLS] A [SEP] is guessed at the token before it, and [SEP] too where the text ends with it;
where it only says that an example was cut, it is not. So nearly every position has a label, where masked language
modelling has 15 %, and a text that is generated knows when to end. A tokenizer that frames nothing, as GPT-2's,
has one token between texts: it stands before the first token of a text and after its last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from ..data.batch import Batch
from ..models.config import ModelConfig
from .audit import AuditedSequence, audit
from .outcome import Outcome
from .pretraining import MaskedLanguageModelling, Tokens
from .segments import Example

# What stands between the lines of a text, in kinds whose pieces keep white space; in others it is lost anyway.
JOINTS = {"byte-bpe": "\n", "char": " "}


class NextTokenPrediction(MaskedLanguageModelling):
    """Guess the next token at every token, in a network whose tokens see none of those that follow."""

    name: ClassVar[str] = "clm"
    head: ClassVar[str] = "clm"
    parts: ClassVar[tuple[str, ...]] = ("clm",)
    words: ClassVar[str] = "clm"
    network_settings: ClassVar[dict[str, Any]] = {
        "attention": "causal",
        "full_attention_every": 0,
        "separate_directions": False,
    }
    roles: ClassVar[tuple[str, ...]] = ("bos", "eos")

    @classmethod
    def suited(cls, network: ModelConfig, *, carries: bool) -> type[MaskedLanguageModelling]:
        """A recurrent network remembers what stood in the batches before, unless it is not to."""
        from .carried import CarriedTokenPrediction  # which is such an objective, and needs this module

        return CarriedTokenPrediction if carries and network.recurrent is not None else cls

    def batch(self, documents: Tokens, examples: Sequence[Example], rng: np.random.Generator) -> Batch:
        """Pack examples, shortest first. Labels: "clm_positions", where a token is guessed, and "clm", which one."""
        batch, order = self._pack(documents, examples)
        is_guessed = ~torch.from_numpy(self.recipe.masker.is_special)[batch.input_ids]  # [tokens]
        ends_text = torch.tensor([self._ends_text(documents, examples[index]) for index in order.tolist()])
        is_guessed[batch.last_tokens[ends_text]] = True
        is_guessed[batch.first_tokens] = False
        guessed = is_guessed.nonzero().squeeze(1)  # [labels]
        return batch.with_labels(clm_positions=guessed - 1, clm=batch.input_ids[guessed])

    def _row(self, documents: Tokens, example: Example) -> tuple[np.ndarray, np.ndarray]:
        """Ids of the part of a text, with what begins and ends it; all of one type."""
        if self.recipe.frames:
            return super()._row(documents, example)
        tokens = documents.document_tokens(example.a_document)[example.a_start : example.a_stop]
        before = [self.recipe.cls_id] if example.a_start == 0 else []
        after = [self.recipe.sep_id] if self._ends_text(documents, example) else []
        ids = np.concatenate([before, tokens, after]).astype(np.int64)
        return ids, np.zeros(len(ids), dtype=np.int64)

    @staticmethod
    def _ends_text(documents: Tokens, example: Example) -> bool:
        return example.a_stop == len(documents.document_tokens(example.a_document))

    def shown(self, model: nn.Module, batch: Batch, token_of: Callable[[int], str]) -> list[AuditedSequence]:
        """The text as it is, with the tokens that are guessed from those before them."""
        inside = guessed_inside(batch)
        labels = {"mlm_positions": batch.labels["clm_positions"][inside] + 1, "mlm": batch.labels["clm"][inside]}
        return audit(batch.with_labels(**labels), token_of, None, unchanged="next")

    def outcome(self, model: nn.Module, batch: Batch) -> Outcome:
        """Loss and right answers of a batch; the vocabulary is scored where there is a label."""
        network = self.kept(model)
        vectors = network.encode(batch).hidden[batch.labels["clm_positions"]]  # [labels, hidden]
        loss, right = network.mlm_loss(vectors, batch.labels["clm"])
        return Outcome({"clm": loss}, self.counts(batch), {"clm": right})


def guessed_inside(batch: Batch) -> Tensor:
    """Which of the tokens to guess stand in the batch themselves: bool [labels]. The one that follows a stretch of a
    lane stands in the next.
    """
    last: Tensor = batch.last_tokens[torch.tensor(batch.lengths) > 0]
    return ~torch.isin(batch.labels["clm_positions"], last)


def joint_of(tokenizer: Any) -> str:
    """What stands between the lines of a text that a model with this tokenizer learns to write."""
    return JOINTS.get(tokenizer.kind, "")
