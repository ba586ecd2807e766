"""What an objective computes, for estimates of time and memory."""

from __future__ import annotations

from dataclasses import dataclass

from ..models.config import ModelConfig


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
        """Returns the tokens of source and target of a text of `length` tokens."""
        return max(round(self.source * length), 1), round(self.target * length)
