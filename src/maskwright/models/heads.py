"""Task heads: the last layers of a model (Devlin et al. 2018, section 4).

A head takes vectors, not batches: `hidden` of some positions, or one vector per sequence. If `needs_pooler`, those are
pooled; other sequence heads use the first token's vector.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from ..core.config import check
from ..core.errors import InputError
from ..core.registry import resolve
from ..nn.activations import ACTIVATIONS
from ..nn.crf import LinearChainCrf
from ..nn.dropout import dropout
from ..nn.feed_forward import FeedForward
from ..nn.linear import LayerNorm, Linear
from .autoencoder import AutoencoderHead
from .config import ModelConfig
from .losses import PROBLEM_TYPES
from .pretraining_heads import MaskedLanguageModelHead, NextSentenceHead, PretrainingHead, ReplacedTokenHead

CLASSIFIERS = ("classification", "tagging", "tagging-crf", "qa", "choice")  # heads that predict classes
LABELED_HEADS = ("classification", "regression", "tagging", "tagging-crf")  # heads with named outputs


class DenseNorm(nn.Module):
    """norm(act(W h + b)): the first layers of a head if config.head_dense (Warner et al. 2024)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.dense = Linear(config.hidden_size, config.hidden_size, config.head_bias)
        self.norm = LayerNorm(config.hidden_size, config.layer_norm_eps, config.norm_bias)
        self.act = ACTIVATIONS[config.classifier_act or config.hidden_act]

    def forward(self, hidden: Tensor) -> Tensor:
        """hidden: float [..., hidden]. Returns the same shape."""
        result: Tensor = self.norm(self.act(self.dense(hidden)))
        return result


class FirstTokenHead(nn.Module):
    """Sequence head on one vector: dropout and a linear layer on the pooled vector, with a dense layer first, or
    without either (config.bare_heads).

    act: None for the pooled vector, else the activation of a dense layer on the first token (or on the mean:
    config.pooling); input_dropout: dropout before that layer. first_kept: in a padded row, use the first unmasked token
    instead of column 0.
    """

    def __init__(
        self, config: ModelConfig, num_outputs: int, act: str | None, rate: float | None, input_dropout: bool
    ) -> None:
        super().__init__()
        self.needs_pooler = act is None and not config.bare_heads
        self.takes_mean = not self.needs_pooler and config.pooling == "mean"
        self.first_kept = False
        self.dropout = config.hidden_dropout if rate is None else rate
        self.input_dropout = self.dropout if input_dropout else 0.0
        self.dense = None if act is None else Linear(config.hidden_size, config.hidden_size, config.head_bias)
        has_norm = self.dense is not None and config.head_dense
        self.norm = LayerNorm(config.hidden_size, config.layer_norm_eps, config.norm_bias) if has_norm else None
        self.act = None if act is None else ACTIVATIONS[act]
        self.classifier = Linear(config.hidden_size, num_outputs, bias=not config.bare_heads)

    def forward(self, vectors: Tensor) -> Tensor:
        """vectors: float [sequences, hidden]. Returns logits [sequences, num_outputs]."""
        if self.dense is not None and self.act is not None:
            vectors = self.act(self.dense(dropout(vectors, self.input_dropout, self.training)))
        if self.norm is not None:
            vectors = self.norm(vectors)
        logits: Tensor = self.classifier(dropout(vectors, self.dropout, self.training))
        return logits


class SequenceClassificationHead(FirstTokenHead):
    """Classification or regression of a whole text.

    labels: names of the outputs, in order; problem_type: one of PROBLEM_TYPES, or None to infer it from the labels as
    in transformers.
    """

    def __init__(
        self,
        config: ModelConfig,
        labels: Sequence[str] = ("LABEL_0", "LABEL_1"),
        problem_type: str | None = None,
    ) -> None:
        _check_labels(labels)
        check(
            problem_type is None or problem_type in PROBLEM_TYPES,
            f"problem_type is {problem_type!r}; it must be one of {', '.join(PROBLEM_TYPES)}, or None.",
        )
        super().__init__(
            config, len(labels), config.classifier_act, config.classifier_dropout, config.classifier_input_dropout
        )
        self.labels = tuple(labels)
        self.problem_type = problem_type


class ChoiceHead(FirstTokenHead):
    """Multiple choice: one score per text (section 4.4), with a softmax over the choices of a question."""

    def __init__(self, config: ModelConfig) -> None:
        rate = config.classifier_dropout if config.choice_dropout is None else config.choice_dropout
        super().__init__(config, 1, config.choice_act, rate, input_dropout=False)
        self.first_kept = config.head_dense  # as in transformers


class TokenClassificationHead(nn.Module):
    """Token classification (section 5.3): dropout and one linear layer. labels: names of the outputs."""

    needs_pooler = False

    def __init__(self, config: ModelConfig, labels: Sequence[str] = ("LABEL_0", "LABEL_1")) -> None:
        super().__init__()
        _check_labels(labels)
        own = config.classifier_dropout if config.tagging_dropout == "classifier" else None
        self.labels = tuple(labels)
        self.dense = DenseNorm(config) if config.head_dense else None
        self.dropout = config.hidden_dropout if own is None else own
        self.classifier = Linear(config.hidden_size, len(self.labels))

    def forward(self, hidden: Tensor) -> Tensor:
        """hidden: float [tokens, hidden]. Returns logits [tokens, num_labels]."""
        hidden = hidden if self.dense is None else self.dense(hidden)
        logits: Tensor = self.classifier(dropout(hidden, self.dropout, self.training))
        return logits


class TokenCrfHead(TokenClassificationHead):
    """Token classification with a conditional random field over neighboring labels (`crf`)."""

    def __init__(self, config: ModelConfig, labels: Sequence[str] = ("LABEL_0", "LABEL_1")) -> None:
        super().__init__(config, labels)
        self.crf = LinearChainCrf(len(self.labels))


class SpanHead(nn.Module):
    """Answer spans: two logits per token, start and end (section 4.2).

    config.span_ffn: a feed-forward network comes first, with add and norm as in a layer.
    """

    needs_pooler = False

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.dense = DenseNorm(config) if config.head_dense else None
        self.ffn = self.ffn_norm = None
        if config.span_ffn:
            self.ffn = FeedForward(config.hidden_size, config.intermediate_size, config.hidden_act)
            self.ffn_norm = LayerNorm(config.hidden_size, config.layer_norm_eps, config.norm_bias)
        self.ffn_dropout = config.hidden_dropout
        self.dropout = config.span_dropout
        self.classifier = Linear(config.hidden_size, 2)

    def forward(self, hidden: Tensor) -> Tensor:
        """hidden: float [tokens, hidden]. Returns logits [tokens, 2]."""
        hidden = hidden if self.dense is None else self.dense(hidden)
        if self.ffn is not None and self.ffn_norm is not None:
            inner = self.ffn(dropout(hidden, self.ffn_dropout, self.training))
            hidden = self.ffn_norm(hidden + dropout(inner, self.ffn_dropout, self.training))
        logits: Tensor = self.classifier(dropout(hidden, self.dropout, self.training))
        return logits


VectorHead = FirstTokenHead | AutoencoderHead  # heads on one vector per sequence
TokenHead = TokenClassificationHead | SpanHead | ReplacedTokenHead
Head = MaskedLanguageModelHead | NextSentenceHead | PretrainingHead | VectorHead | TokenHead


def make_head(
    name: str | None,
    config: ModelConfig,
    labels: Sequence[str] | int | None = None,
    problem_type: str | None = None,
) -> Head | None:
    """Returns the head `name` (None: no head) without initialized parameters.

    labels: names or number of the outputs; default 1 for regression, 2 for other heads with labels. Raises ConfigError
    for an unknown name, and for labels if the head has none.
    """
    if name in LABELED_HEADS:
        default = 1 if name == "regression" else 2
        names = default if labels is None else labels
        if isinstance(names, int):
            names = [f"LABEL_{index}" for index in range(names)]
        if name.startswith("tagging"):
            tagger: TokenClassificationHead = resolve("head", name)(config, names)
            return tagger
        return SequenceClassificationHead(config, names, "regression" if name == "regression" else problem_type)
    check(labels is None, f"Head {name or 'none'} does not support labels: only {', '.join(LABELED_HEADS)} do.")
    if name is None:
        return None
    head: Head = resolve("head", name)(config)
    return head


def require(head: nn.Module | None, kinds: tuple[type[nn.Module], ...], what: str) -> Any:
    """Returns `head` if it is one of `kinds`, else raises InputError that the model cannot do `what`."""
    if isinstance(head, kinds):
        return head
    has = f"its head is {type(head).__name__}" if head is not None else "it is a bare encoder"
    raise InputError(f"This model cannot {what}: {has}. Load or build it with another head.")


def _check_labels(labels: Sequence[str]) -> None:
    check(len(labels) > 0, "A classifier needs at least one label.")
    label, count = Counter(labels).most_common(1)[0]
    check(count == 1, f"Label '{label[:60]}' occurs {count:,} times among {len(labels):,}; labels must be unique.")
