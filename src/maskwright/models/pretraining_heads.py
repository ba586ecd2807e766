"""Pre-training heads: masked and causal language modeling, sentence pairs, replaced token detection.

Devlin et al. 2018, section 3.1 (masked tokens, next sentence); Lan et al. 2020, section 3.1 (sentence order);
Clark et al. 2020, section 2 (replaced tokens).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..core.config import check
from ..nn.functions import Function, first_derivative_only
from ..nn.layers import ACTIVATIONS, LayerNorm, Linear, dropout
from .config import ModelConfig

# -- Chunked cross-entropy over a whole vocabulary: the logits are never stored all at once --------------------------
#
# Logits of 5,000 positions over 30,522 tokens take 600 MB in float32, and a plain loss stores several copies. Here the
# gradients of each chunk are computed in the forward pass, and its logits are freed before the next chunk: only the
# gradients are stored, and nothing is computed twice. With p the softmax and y the label, the gradient of the summed
# loss with respect to the logits is p - one_hot(y). Label smoothing (Szegedy et al. 2016, section 7) replaces
# one_hot(y) by (1 - e) one_hot(y) + e / vocab.


# Maximum logits per chunk: on a CPU they fit the larger caches; a GPU needs large products.
MOST_SCORES = {"cpu": 1 << 23}
MOST_SCORES_ELSEWHERE = 1 << 26


def vocabulary_loss(
    vectors: Tensor,
    table: Tensor,
    bias: Tensor | None,
    labels: Tensor,
    most: int | None = None,
    label_smoothing: float = 0.0,
    is_scored: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Summed cross-entropy of logits = vectors table^T + bias; and, for the scored labels, the number of correct
    predictions and the summed cross-entropy without smoothing or gradient. Three scalars.

    Args:
        vectors: float [positions, size]; products run in its dtype.
        table: float [vocab, size].
        bias: float [vocab], or None.
        labels: int64 [positions].
        most: Maximum logits per chunk; default by device.
        label_smoothing: Probability mass spread evenly over the vocabulary.
        is_scored: bool [positions], default: all.

    The loss is float32 (float64 if vectors are). Its gradient can be computed once.
    """
    most = most_scores(vectors.device.type) if most is None else most
    rows = max(most // len(table), 1)
    if not torch.is_grad_enabled():
        return _sums(vectors, table, bias, labels, rows, label_smoothing, is_scored)
    loss, right, scored = _VocabularyLoss.apply(vectors, table, bias, labels, rows, label_smoothing, is_scored)
    return loss, right, scored


def most_scores(device_type: str) -> int:
    """Maximum logits per chunk on a device of this type, if a single position does not have more."""
    return MOST_SCORES.get(device_type, MOST_SCORES_ELSEWHERE)


def _sums(
    vectors: Tensor,
    table: Tensor,
    bias: Tensor | None,
    labels: Tensor,
    rows: int,
    smoothing: float,
    is_scored: Tensor | None,
    gradients: _Gradients | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The three scalars of `vocabulary_loss`, and the gradients of the loss. rows: positions per chunk."""
    wide = _wide(vectors)
    weight, offset = table.to(vectors.dtype), None if bias is None else bias.to(vectors.dtype)
    spread = smoothing / len(table)  # target probability of every token from smoothing
    loss = torch.zeros((), dtype=wide, device=vectors.device)
    right = torch.zeros((), dtype=torch.int64, device=vectors.device)
    scored = torch.zeros_like(loss)
    for part, own, kept in _parts(vectors, labels, is_scored, rows):
        scores = F.linear(part, weight, offset).to(wide)  # [rows, vocab]
        at_label = scores.gather(1, own.unsqueeze(1))  # [rows, 1]
        highest = scores.amax(dim=-1, keepdim=True)  # [rows, 1]
        right += _first_is_right(scores, highest, at_label, own, kept)
        probabilities = torch.softmax(scores, dim=-1)  # [rows, vocab]
        # log(sum(exp(scores))) from the largest probability: it is at least 1 / vocab, so its log is exact.
        total = highest - probabilities.amax(dim=-1, keepdim=True).log()  # [rows, 1]
        loss += (total - (1 - smoothing) * at_label).sum()
        scored += _sum_of((total - at_label).squeeze(1), kept)
        if smoothing:
            loss -= spread * scores.sum()
        if gradients is not None:
            probabilities.scatter_add_(1, own.unsqueeze(1), probabilities.new_full(at_label.shape, smoothing - 1.0))
            if smoothing:
                probabilities -= spread
            gradients.add(probabilities, part, weight)
    return loss, right, scored


class _VocabularyLoss(Function):
    """Computes gradients in the forward pass, for an upstream gradient of 1; the backward pass scales them."""

    @staticmethod
    def forward(
        context: Any,
        vectors: Tensor,
        table: Tensor,
        bias: Tensor | None,
        labels: Tensor,
        rows: int,
        smoothing: float,
        is_scored: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """See `_sums` for the [...]."""
        wanted = list(context.needs_input_grad[:3])
        gradients = _Gradients(vectors, table, bias, _wide(vectors), wanted)
        own = gradients if any(wanted) else None
        loss, right, scored = _sums(vectors, table, bias, labels, rows, smoothing, is_scored, own)
        context.sums = gradients.done()
        context.mark_non_differentiable(right, scored)
        return loss, right, scored

    @staticmethod
    @first_derivative_only
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Scales the gradients by that of the loss, a scalar []."""
        if context.sums is None:
            raise RuntimeError("The gradient of vocabulary_loss can be computed only once.")
        sums, context.sums = context.sums, None
        scaled = [None if one is None else one.mul_(gradients[0].to(one.dtype)) for one in sums]
        return (*scaled, None, None, None, None)


def _wide(vectors: Tensor) -> torch.dtype:
    """The dtype of the sums."""
    return torch.float64 if vectors.dtype == torch.float64 else torch.float32


def _parts(
    vectors: Tensor, labels: Tensor, is_scored: Tensor | None, rows: int
) -> Iterable[tuple[Tensor, Tensor, Tensor | None]]:
    """Yields chunks of similar size, at most `rows` positions, with their labels and is_scored (None: all)."""
    number = -(-len(labels) // rows)
    if not number:
        return ()
    kept = repeat(None, number) if is_scored is None else is_scored.tensor_split(number)
    return zip(vectors.tensor_split(number), labels.tensor_split(number), kept, strict=True)


def _sum_of(losses: Tensor, is_scored: Tensor | None) -> Tensor:
    """The sum of the scored losses, []. losses: float [rows]; is_scored: bool [rows], or None for all."""
    return losses.sum() if is_scored is None else (losses * is_scored).sum()


def _first_is_right(
    scores: Tensor, highest: Tensor, at_label: Tensor, labels: Tensor, is_scored: Tensor | None
) -> Tensor:
    """Number of scored rows whose first maximum is the label: int64 [].

    scores: float [rows, vocab]; labels: int64 [rows]; is_scored: bool [rows], or None for all.

    On a CPU argmax takes ten times as long as amax, so it runs only on rows whose label has the maximum score; on a GPU
    the selection of rows would wait for the result.
    """
    if scores.device.type != "cpu":
        return _right_of_all(scores, labels, is_scored)
    may_be_right = (at_label == highest).squeeze(1)  # [rows]
    if is_scored is not None:
        may_be_right &= is_scored
    rows = may_be_right.nonzero().squeeze(1)
    return (scores[rows].argmax(dim=-1) == labels[rows]).sum()


def _right_of_all(scores: Tensor, labels: Tensor, is_scored: Tensor | None) -> Tensor:
    """The same from every row: int64 []."""
    is_right = scores.argmax(dim=-1) == labels
    return (is_right if is_scored is None else is_right & is_scored).sum()


class _Gradients:
    """Sums over chunks: for the vectors in their dtype, for table and bias in float32 (or float64)."""

    def __init__(
        self, vectors: Tensor, table: Tensor, bias: Tensor | None, wide: torch.dtype, wanted: list[bool]
    ) -> None:
        self.dtypes = vectors.dtype, table.dtype, wide if bias is None else bias.dtype
        self.for_vectors: list[Tensor] | None = [] if wanted[0] else None
        self.for_table = torch.zeros_like(table, dtype=wide) if wanted[1] else None
        self.for_bias = torch.zeros_like(bias, dtype=wide) if bias is not None and wanted[2] else None
        self.none_like = vectors

    def add(self, slopes: Tensor, vectors: Tensor, weight: Tensor) -> None:
        """slopes: gradient of the scores [rows, vocab]; vectors: [rows, size]; weight: [vocab, size]."""
        if self.for_bias is not None:
            self.for_bias += slopes.sum(dim=0)
        slopes = slopes.to(vectors.dtype)
        if self.for_vectors is not None:
            self.for_vectors.append(slopes @ weight)
        if self.for_table is None:
            return
        if self.for_table.dtype == vectors.dtype:
            self.for_table.addmm_(slopes.T, vectors)
        else:
            self.for_table += slopes.T @ vectors

    def done(self) -> tuple[Tensor | None, ...]:
        """For vectors [positions, size], table [vocab, size] and bias [vocab]; None if not needed."""
        own = None
        if self.for_vectors is not None:
            own = torch.cat(self.for_vectors) if self.for_vectors else torch.zeros_like(self.none_like)
        found = (own, self.for_table, self.for_bias)
        return tuple(None if one is None else one.to(dtype) for one, dtype in zip(found, self.dtypes, strict=True))


class MaskedLanguageModelHead(nn.Module):
    """Masked token prediction: norm(act(W h + b)), times the embedding table, plus a bias (section 3.1, task 1).

    The decoder is the embedding table, passed in, so it is stored and trained once; without `tie_word_embeddings` the
    head has its own table. W projects to the size of its rows. With `bare_heads` there is only the decoder.
    """

    needs_pooler = False

    def __init__(self, config: ModelConfig, width: int | None = None) -> None:
        """width: input size, None for hidden_size."""
        super().__init__()
        check(
            not config.character_width,
            "A network with character-level word embeddings cannot predict characters: its input contains them.",
        )
        size, width = config.decoder_size, config.hidden_size if width is None else width
        bare = config.bare_heads or not config.mlm_dense
        check(
            not bare or size == width,
            "bare_heads and mlm_dense false multiply hidden states with the embedding table, which must have their "
            "size: remove embedding_size.",
        )
        self.dense = None if bare else Linear(width, size, config.head_bias)
        self.norm = None if bare else LayerNorm(size, config.layer_norm_eps, config.norm_bias)
        has_bias = not config.bare_heads and (config.mlm_dense or config.linear_bias)
        self.bias = nn.Parameter(torch.empty(config.vocab_size)) if has_bias else None
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
