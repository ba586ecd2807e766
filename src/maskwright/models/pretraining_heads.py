"""Heads of pre-training: masked words, next words, sentence pairs, replaced tokens.

Devlin et al. 2018, section 3.1 (masked words, next sentence); Lan et al. 2020, section 3.1 (sentence order);
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
    """Which token stands here? norm(act(W h + b)), times the word table, plus a bias (section 3.1, task 1).

    The decoder is the word table, passed in, so that it is stored and trained once; with
    `tie_word_embeddings` off it is a table of the head's own. W leads to the width of the word table. With
    `bare_heads` the decoder is all there is.
    """

    needs_pooler = False

    def __init__(self, config: ModelConfig, width: int | None = None) -> None:
        """width: of what it reads, None for hidden_size."""
        super().__init__()
        check(
            not config.character_width,
            "A network that makes words of characters guesses none: it would see the character that it has to guess.",
        )
        size, width = config.table_size, config.hidden_size if width is None else width
        bare = config.bare_heads
        check(
            not bare or size == width,
            "bare_heads multiply hidden states with the word table, which must be as wide: leave embedding_size out.",
        )
        self.dense = None if bare else Linear(width, size, config.head_bias)
        self.norm = None if bare else LayerNorm(size, config.layer_norm_eps, config.norm_bias)
        self.bias = None if bare else nn.Parameter(torch.empty(config.vocab_size))
        self.decoder = None if config.tie_word_embeddings else nn.Parameter(torch.empty(config.vocab_size, size))
        self.act = ACTIVATIONS[config.mlm_act or config.hidden_act]

    def forward(self, hidden: Tensor, word_embeddings: Tensor) -> Tensor:
        """hidden: float [positions, hidden]; word_embeddings: float [vocab, size], the word table.

        Returns logits [positions, vocab]. Pass only the positions whose token is wanted: this product is the
        largest of a small model.
        """
        hidden, decoder = self.before_decoder(hidden), self.table(word_embeddings)
        bias = None if self.bias is None else self.bias.to(hidden.dtype)
        return F.linear(hidden, decoder.to(hidden.dtype), bias)

    def loss(
        self, hidden: Tensor, word_embeddings: Tensor, labels: Tensor, label_smoothing: float = 0.0
    ) -> tuple[Tensor, Tensor]:
        """Summed cross-entropy of those logits, and how many are right, both scalars; the logits never exist whole.

        hidden: float [positions, hidden]; word_embeddings: float [vocab, size]; labels: int64 [positions];
        label_smoothing: as `vocabulary_loss` takes it.
        """
        hidden = self.before_decoder(hidden)
        return vocabulary_loss(hidden, self.table(word_embeddings), self.bias, labels, label_smoothing=label_smoothing)

    def before_decoder(self, hidden: Tensor) -> Tensor:
        """What the decoder multiplies: float [positions, size]."""
        if self.dense is None or self.norm is None:
            return hidden
        normed: Tensor = self.norm(self.act(self.dense(hidden)))
        return normed

    def table(self, word_embeddings: Tensor) -> Tensor:
        """The decoder: float [vocab, size]."""
        return word_embeddings if self.decoder is None else self.decoder


class CausalLanguageModelHead(MaskedLanguageModelHead):
    """Which token comes next? The head of masked words, read at the token before (Radford et al. 2018, equation 1).

    Raises ConfigError for a network whose tokens see later ones: they would see the answer.
    """

    def __init__(self, config: ModelConfig) -> None:
        check(
            config.attention == "causal",
            f"Guessing the next token needs attention 'causal', and this network's is '{config.attention}'.",
        )
        super().__init__(config)


class BidirectionalLanguageModelHead(MaskedLanguageModelHead):
    """Which token comes next, and which came before? One head for both directions (Peters et al. 2018, section 3.1).

    Raises ConfigError for a network whose directions meet: each would see the answer of the other.
    """

    def __init__(self, config: ModelConfig) -> None:
        check(
            config.separate_directions,
            "Guessing from both ends needs a network whose directions never meet: set separate_directions.",
        )
        super().__init__(config, config.direction_size)
        self.width = config.direction_size

    def forward(self, hidden: Tensor, word_embeddings: Tensor) -> Tensor:
        """hidden: float [positions, hidden], the two directions of a token behind each other, or [positions, hidden /
        2] of one. Returns logits [positions, 2, vocab], next and previous; of one direction [positions, vocab].
        """
        if hidden.shape[1] == self.width:
            return super().forward(hidden, word_embeddings)
        left, right = hidden.chunk(2, dim=-1)
        forward = super().forward
        return torch.stack([forward(left, word_embeddings), forward(right, word_embeddings)], dim=1)


class NextSentenceHead(nn.Module):
    """Does B follow A? Two logits: 0 = B follows A, 1 = B is random (section 3.1, task 2).

    Where config.pair_objective is "sop": 0 = A and B in their order, 1 = swapped, with dropout before it.
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
    """Both heads of pre-training over one encoder: masked words and sentence pairs."""

    needs_pooler = True

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.predictions = MaskedLanguageModelHead(config)
        self.seq_relationship = NextSentenceHead(config)


class ReplacedTokenHead(nn.Module):
    """Was this token replaced? One logit a token, above 0 for a replaced one: w . act(W h + b) + c."""

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
