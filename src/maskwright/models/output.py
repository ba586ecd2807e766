"""Output of a padded call, in transformers' names and shapes."""

from __future__ import annotations

from dataclasses import dataclass, fields

from torch import Tensor


@dataclass(frozen=True)
class ModelOutput:
    """Fields by attribute or by name (`out.logits`, `out["logits"]`); missing fields are None.

    last_hidden_state: float [batch, seq, hidden], 0 for masked tokens;
    pooler_output: float [batch, hidden]; loss: float [];
    logits: [batch, seq, vocab] (mlm), [batch, 2] (nsp), [batch, num_labels] (classification, regression),
    [batch, seq, num_labels] (tagging), [batch, seq] (rtd), [batch, choices] (choice), [batch, 1] (anomaly);
    prediction_logits [batch, seq, vocab] and seq_relationship_logits or, for sentence order, sop_logits [batch, 2]
    (pretraining); start_logits, end_logits [batch, seq] (qa);
    hidden_states: layers + 1 tensors [batch, seq, hidden], the embeddings first;
    attentions: per layer [batch, heads, seq, seq].
    An encoder-decoder has decoder_hidden_states and decoder_attentions instead, cross_attentions: per layer [batch,
    heads, target seq, seq]; logits [batch, target seq, vocab]; encoder_last_hidden_state, encoder_hidden_states and
    encoder_attentions.
    """

    last_hidden_state: Tensor
    loss: Tensor | None = None
    logits: Tensor | None = None
    prediction_logits: Tensor | None = None
    seq_relationship_logits: Tensor | None = None
    sop_logits: Tensor | None = None
    start_logits: Tensor | None = None
    end_logits: Tensor | None = None
    pooler_output: Tensor | None = None
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[Tensor, ...] | None = None
    decoder_hidden_states: tuple[Tensor, ...] | None = None
    decoder_attentions: tuple[Tensor, ...] | None = None
    cross_attentions: tuple[Tensor, ...] | None = None
    encoder_last_hidden_state: Tensor | None = None
    encoder_hidden_states: tuple[Tensor, ...] | None = None
    encoder_attentions: tuple[Tensor, ...] | None = None

    def __getitem__(self, name: str) -> Tensor | tuple[Tensor, ...]:
        value = getattr(self, name) if name in self.keys() else None
        if value is None:
            raise KeyError(f"{name!r}: this output contains {', '.join(self.keys())}.")
        result: Tensor | tuple[Tensor, ...] = value
        return result

    def __contains__(self, name: object) -> bool:
        return name in self.keys()

    def keys(self) -> list[str]:
        """Names of the fields that are not None."""
        return [field.name for field in fields(self) if getattr(self, field.name) is not None]
