"""Pre-training heads: masked and causal language modeling, sentence pairs, replaced token detection.

Devlin et al. 2018, section 3.1 (masked tokens, next sentence); Lan et al. 2020, section 3.1 (sentence order);
Clark et al. 2020, section 2 (replaced tokens).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..core.config import check
from ..nn.activations import ACTIVATIONS
from ..nn.dropout import dropout
from ..nn.linear import LayerNorm, Linear
from .config import ModelConfig
from .vocabulary_loss import vocabulary_loss


class MaskedLanguageModelHead(nn.Module):
    """Masked token prediction: norm(act(W h + b)), times the embedding table, plus a bias (section 3.1, task 1).

    The decoder is the embedding table, passed in, so it is stored and trained once; without `tie_word_embeddings` the
    head has its own table. W projects to the size of the embedding table. With `bare_heads` there is only the decoder.
    """

    needs_pooler = False

    def __init__(self, config: ModelConfig, width: int | None = None) -> None:
        """width: input size, None for hidden_size."""
        super().__init__()
        check(
            not config.character_width,
            "A network with character-level word embeddings cannot predict characters: its input contains them.",
        )
        size, width = config.table_size, config.hidden_size if width is None else width
        bare = config.bare_heads
        check(
            not bare or size == width,
            "bare_heads multiply hidden states with the embedding table, which must have their size: remove "
            "embedding_size.",
        )
        self.dense = None if bare else Linear(width, size, config.head_bias)
        self.norm = None if bare else LayerNorm(size, config.layer_norm_eps, config.norm_bias)
        self.bias = None if bare else nn.Parameter(torch.empty(config.vocab_size))
        self.decoder = None if config.tie_word_embeddings else nn.Parameter(torch.empty(config.vocab_size, size))
        self.act = ACTIVATIONS[config.mlm_act or config.hidden_act]

    def forward(self, hidden: Tensor, word_embeddings: Tensor) -> Tensor:
        """hidden: float [positions, hidden]; word_embeddings: float [vocab, size], the embedding table.

        Returns logits [positions, vocab]. Pass only the positions to predict: this is the largest product of a small
        model.
        """
        hidden, decoder = self.before_decoder(hidden), self.table(word_embeddings)
        bias = None if self.bias is None else self.bias.to(hidden.dtype)
        return F.linear(hidden, decoder.to(hidden.dtype), bias)

    def loss(
        self,
        hidden: Tensor,
        word_embeddings: Tensor,
        labels: Tensor,
        label_smoothing: float = 0.0,
        is_scored: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The three scalars of `vocabulary_loss` for those logits, computed in chunks.

        hidden: float [positions, hidden]; word_embeddings: float [vocab, size]; labels: int64 [positions];
        label_smoothing, is_scored: see `vocabulary_loss`.
        """
        hidden, table = self.before_decoder(hidden), self.table(word_embeddings)
        return vocabulary_loss(hidden, table, self.bias, labels, None, label_smoothing, is_scored)

    def before_decoder(self, hidden: Tensor) -> Tensor:
        """The input of the decoder: float [positions, size]."""
        if self.dense is None or self.norm is None:
            return hidden
        normed: Tensor = self.norm(self.act(self.dense(hidden)))
        return normed

    def table(self, word_embeddings: Tensor) -> Tensor:
        """The decoder's weights: float [vocab, size]."""
        return word_embeddings if self.decoder is None else self.decoder


class CausalLanguageModelHead(MaskedLanguageModelHead):
    """Next-token prediction: the masked-LM head applied to the previous token (Radford et al. 2018, equation 1).

    Raises ConfigError for a network whose tokens attend to later ones: they would see the target.
    """

    def __init__(self, config: ModelConfig) -> None:
        check(
            config.attention == "causal",
            f"Predicting the next token needs attention 'causal'; this network has '{config.attention}': use a causal "
            "model, such as one of the preset gpt2.",
        )
        super().__init__(config)


class BidirectionalLanguageModelHead(MaskedLanguageModelHead):
    """Prediction of the next and the previous token with one shared head (Peters et al. 2018, section 3.1).

    Raises ConfigError for a network that mixes the directions: each would see the other's target.
    """

    def __init__(self, config: ModelConfig) -> None:
        check(
            config.separate_directions,
            "Bidirectional language modeling needs a network with separate directions: set separate_directions.",
        )
        super().__init__(config, config.direction_size)
        self.width = config.direction_size

    def forward(self, hidden: Tensor, word_embeddings: Tensor) -> Tensor:
        """hidden: float [positions, hidden], both directions concatenated, or [positions, hidden / 2] of one.

        Returns logits [positions, 2, vocab], next and previous; for one direction [positions, vocab].
        """
        if hidden.shape[1] == self.width:
            return super().forward(hidden, word_embeddings)
        left, right = hidden.chunk(2, dim=-1)
        forward = super().forward
        return torch.stack([forward(left, word_embeddings), forward(right, word_embeddings)], dim=1)


class NextSentenceHead(nn.Module):
    """Next sentence prediction: two logits, 0 = B follows A, 1 = B is random (section 3.1, task 2).

    If config.pair_objective is "sop": 0 = A and B in order, 1 = swapped, with dropout before the layer.
    """

    needs_pooler = True

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        rate = config.hidden_dropout if config.classifier_dropout is None else config.classifier_dropout
        self.dropout = rate if config.pair_objective == "sop" else 0.0
        self.classifier = Linear(config.hidden_size, 2)

    def forward(self, pooled: Tensor) -> Tensor:
        """pooled: float [sequences, hidden]. Returns logits [sequences, 2]."""
        logits: Tensor = self.classifier(dropout(pooled, self.dropout, self.training))
        return logits


class PretrainingHead(nn.Module):
    """Both pre-training heads on one encoder: masked tokens and sentence pairs."""

    needs_pooler = True

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.predictions = MaskedLanguageModelHead(config)
        self.seq_relationship = NextSentenceHead(config)


class ReplacedTokenHead(nn.Module):
    """Replaced token detection: one logit per token, above 0 for a replaced one: w . act(W h + b) + c."""

    needs_pooler = False

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.dense = Linear(config.hidden_size, config.hidden_size)
        self.classifier = Linear(config.hidden_size, 1)
        self.act = ACTIVATIONS[config.hidden_act]

    def forward(self, hidden: Tensor) -> Tensor:
        """hidden: float [tokens, hidden]. Returns logits [tokens]."""
        logits: Tensor = self.classifier(self.act(self.dense(hidden)))
        return logits.squeeze(-1)
