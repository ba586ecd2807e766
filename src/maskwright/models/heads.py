"""Heads: the last layers, one kind for each use of the encoder (Devlin et al. 2018, sections 3.1 and 4).

A head takes vectors, not batches: `hidden` of chosen positions, or `pooled` of sequences. `needs_pooler` says
whether the encoder under it has a pooler.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..core.config import check
from ..core.errors import InputError
from ..core.registry import resolve
from ..nn.activations import ACTIVATIONS
from ..nn.dropout import dropout
from ..nn.linear import LayerNorm, Linear
from .config import ModelConfig
from .losses import PROBLEM_TYPES


class MaskedLanguageModelHead(nn.Module):
    """Which token stands here? norm(act(W h + b)), times the word table, plus a bias (section 3.1, task 1).

    The decoder is the word table, passed in, so that it is stored and trained once; with
    `tie_word_embeddings` off it is a table of the head's own.
    """

    needs_pooler = False

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.dense = Linear(config.hidden_size, config.hidden_size)
        self.norm = LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.bias = nn.Parameter(torch.empty(config.vocab_size))
        tied = config.tie_word_embeddings
        self.decoder = None if tied else nn.Parameter(torch.empty(config.vocab_size, config.hidden_size))
        self.act = ACTIVATIONS[config.hidden_act]

    def forward(self, hidden: Tensor, word_embeddings: Tensor) -> Tensor:
        """hidden: float [positions, hidden]; word_embeddings: float [vocab, hidden].

        Returns logits [positions, vocab]. Pass only the positions whose token is wanted: this product is the
        largest of a small model.
        """
        hidden = self.norm(self.act(self.dense(hidden)))
        decoder = word_embeddings if self.decoder is None else self.decoder
        return F.linear(hidden, decoder.to(hidden.dtype), self.bias.to(hidden.dtype))


class NextSentenceHead(nn.Module):
    """Does B follow A? Two logits: 0 = B follows A, 1 = B is random (section 3.1, task 2)."""

    needs_pooler = True

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.classifier = Linear(config.hidden_size, 2)

    def forward(self, pooled: Tensor) -> Tensor:
        """pooled: float [sequences, hidden]. Returns logits [sequences, 2]."""
        logits: Tensor = self.classifier(pooled)
        return logits


class PretrainingHead(nn.Module):
    """Both heads of pre-training over one encoder: masked words and next sentence."""

    needs_pooler = True

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.predictions = MaskedLanguageModelHead(config)
        self.seq_relationship = NextSentenceHead(config)


class SequenceClassificationHead(nn.Module):
    """Labels or a number for a whole text: dropout and one linear layer on the pooled vector.

    labels: the names of the outputs, in order; problem_type: one of PROBLEM_TYPES, or None to let the labels
    of a loss decide, as transformers does.
    """

    needs_pooler = True

    def __init__(
        self,
        config: ModelConfig,
        labels: Sequence[str] = ("LABEL_0", "LABEL_1"),
        problem_type: str | None = None,
    ) -> None:
        super().__init__()
        check(len(labels) > 0, "A classifier needs at least one label.")
        check(len(set(labels)) == len(labels), f"The labels {', '.join(labels)} are not all different.")
        check(
            problem_type is None or problem_type in PROBLEM_TYPES,
            f"problem_type is {problem_type!r}; it must be one of {', '.join(PROBLEM_TYPES)}, or None.",
        )
        self.labels = tuple(labels)
        self.problem_type = problem_type
        self.dropout = config.hidden_dropout if config.classifier_dropout is None else config.classifier_dropout
        self.classifier = Linear(config.hidden_size, len(self.labels))

    def forward(self, pooled: Tensor) -> Tensor:
        """pooled: float [sequences, hidden]. Returns logits [sequences, num_labels]."""
        logits: Tensor = self.classifier(dropout(pooled, self.dropout, self.training))
        return logits


Head = MaskedLanguageModelHead | NextSentenceHead | PretrainingHead | SequenceClassificationHead


def make_head(
    name: str | None,
    config: ModelConfig,
    labels: Sequence[str] | int | None = None,
    problem_type: str | None = None,
) -> Head | None:
    """The head called `name` (None: no head), its parameters not yet filled.

    labels: names of the outputs, or how many there are; default two for classification, one for regression.
    Raises ConfigError for an unknown name, and for labels where the head has none.
    """
    if name in ("classification", "regression"):
        default = 2 if name == "classification" else 1
        names = default if labels is None else labels
        if isinstance(names, int):
            names = [f"LABEL_{index}" for index in range(names)]
        return SequenceClassificationHead(config, names, "regression" if name == "regression" else problem_type)
    check(labels is None, f"Head {name or 'none'} takes no labels: only classification and regression do.")
    if name is None:
        return None
    head: Head = resolve("head", name)(config)
    return head


def require(head: nn.Module | None, kinds: tuple[type[nn.Module], ...], what: str) -> Any:
    """`head` if it is one of `kinds`, else InputError saying that the model cannot do `what`."""
    if isinstance(head, kinds):
        return head
    has = f"its head is {type(head).__name__}" if head is not None else "it is a bare encoder"
    raise InputError(f"This model cannot {what}: {has}. Load or build it with another head.")
