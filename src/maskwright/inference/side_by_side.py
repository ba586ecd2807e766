"""One text through a bidirectional and a causal language model: what each predicts for every word."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..core.errors import InputError
from ..data.batch import Batch
from ..models.model import Model, tokenizer_of
from .kinds import require


@dataclass(frozen=True)
class SideBySide:
    """Predictions of both models.

    words: tokens of the text; ids: their IDs; masked: P(x_i | all others), causal: P(x_i | x_<i), each float [tokens,
    vocab].
    """

    words: list[str]
    ids: list[int]
    masked: Tensor
    causal: Tensor

    def loss(self, distributions: Tensor) -> float:
        """Return the mean of -log P over the tokens, in nats."""
        return float(-distributions[range(len(self.ids)), self.ids].log().mean())


@torch.inference_mode()
def predict_side_by_side(masked: Model, causal: Model, text: str) -> SideBySide:
    """Predicts every token of a text with both models.

    masked: a masked language model, which reads the text once per token with that token masked; causal: a causal
    language model with the same vocabulary, which reads it once. Raises InputError for an empty text, for another head,
    and if the vocabularies differ.
    """
    require(masked, "the masked model", "fill-mask")
    require(causal, "the causal model", "predict-next")
    tokenizer = tokenizer_of(masked)
    if tokenizer.tokens != tokenizer_of(causal).tokens:
        raise InputError("The models have different vocabularies: compare models that share a tokenizer.")
    (ids,) = tokenizer.encode_plain([text])
    if not ids:
        raise InputError("The text has no tokens: pass a sentence.")
    frame = tokenizer(text).ids
    start = next(index for index in range(len(frame)) if frame[index : index + len(ids)] == ids)
    assert tokenizer.mask_id is not None
    rows = [[*frame[: start + n], tokenizer.mask_id, *frame[start + n + 1 :]] for n in range(len(ids))]
    batch = Batch.from_sequences(rows)
    positions = batch.cu_seqlens[:-1] + start + torch.arange(len(ids))
    both = masked.mlm_logits(masked.encode(batch).hidden[positions]).float().softmax(dim=-1)
    # A causal model predicts a token at the previous position; the first follows the start token.
    read = Batch.from_sequences([frame[: start + len(ids)]])
    hidden = causal.encode(read).hidden[start - 1 : start - 1 + len(ids)]
    left = causal.mlm_logits(hidden).float().softmax(dim=-1)
    return SideBySide([tokenizer.tokens[one] for one in ids], ids, both, left)
