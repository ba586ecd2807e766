"""Task heads: the last layers of a model (Devlin et al. 2018, section 4).

A head takes vectors, not batches: `hidden` of some positions, or one vector per sequence. If `needs_pooler`, those are
pooled; other sequence heads use the first token's vector.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..core.config import check
from ..core.errors import InputError
from ..core.registry import resolve
from ..data.batch import Batch
from ..nn.crf import LinearChainCrf
from ..nn.embeddings import Table
from ..nn.layers import ACTIVATIONS, FeedForward, LayerNorm, Linear, ScalarMix, dropout
from ..nn.recurrent import RecurrentStack, pack_whole_texts
from .config import ModelConfig
from .pretraining_heads import MaskedLanguageModelHead, NextSentenceHead, PretrainingHead, ReplacedTokenHead
from .probes import AutoencoderHead

# -- Mask of the question in question answering: tokens up to the first separator cannot be in an answer (BigBird)


FORBIDDEN = 1e6  # subtracted from the logits of question tokens


def question_lengths(input_ids: Tensor, sep_token_id: int) -> Tensor:
    """Number of tokens up to and including the first separator: int64 [batch]; 1 without a separator.

    input_ids: int64 [batch, seq].
    """
    return (input_ids == sep_token_id).int().argmax(dim=1) + 1


def in_question(input_ids: Tensor, sep_token_id: int) -> Tensor:
    """Mask of the question columns: bool [batch, seq], like input_ids."""
    columns = torch.arange(input_ids.shape[1], device=input_ids.device)
    return columns < question_lengths(input_ids, sep_token_id)[:, None]


def packed_question(batch: Batch, sep_token_id: int) -> Tensor:
    """The same for a pack: bool [tokens]."""
    return _in_pack(batch, lambda ids: in_question(ids, sep_token_id))


def _in_pack(batch: Batch, mask_of: Callable[[Tensor], Tensor]) -> Tensor:
    """A mask of padded rows, from int64 [batch, seq], for the sequences of a pack: bool [tokens]."""
    found = [mask_of(part[None])[0] for part in batch.input_ids.split(batch.lengths) if len(part)]
    return torch.cat(found) if found else batch.input_ids.bool()


def with_segments(batch: Batch, sep_token_id: int) -> Batch:
    """Sets segment 0 for the question and 1 for the text, if the pack has no token types."""
    if batch.token_type_ids is not None:
        return batch
    return replace(batch, token_type_ids=(~packed_question(batch, sep_token_id)).long())


def forbid(logits: Tensor, question: Tensor, is_first: Tensor) -> Tensor:
    """Excludes the question's tokens from answers, except the first token, which stands for "no answer".

    logits: float [..., 2]; question, is_first: bool [...].
    """
    return logits - (question & ~is_first).unsqueeze(-1).to(logits.dtype) * FORBIDDEN


def asked_in_pack(batch: Batch, sep_token_id: int) -> tuple[Tensor, Tensor]:
    """The tokens of the question and the first tokens of a pack, for `forbid`: bool [tokens] each."""
    is_first = torch.zeros_like(batch.input_ids, dtype=torch.bool)
    is_first[batch.first_tokens[torch.tensor(batch.lengths) > 0]] = True
    return packed_question(batch, sep_token_id), is_first


# -- Tokens with global attention (Longformer: Beltagy et al. 2020, section 3.1) --------------------------------------


def global_columns(head: Any, input_ids: Tensor, sep_token_id: int | None) -> Tensor:
    """Tokens that attend to all and are attended to by all: bool [batch, seq], like input_ids.

    The first one for sequence classification, those before the first separator (the question) for answer spans, those
    after the first two separators for multiple choice, as in transformers. head: one of GLOBAL_HEADS.
    """
    if isinstance(head, SequenceClassificationHead):
        return (torch.arange(input_ids.shape[1], device=input_ids.device) == 0).expand(input_ids.shape)
    if sep_token_id is None:
        return torch.zeros_like(input_ids, dtype=torch.bool)
    seps = (input_ids == sep_token_id).cumsum(dim=1)
    return seps == 0 if isinstance(head, SpanHead) else F.pad(seps, (2, 0))[:, : input_ids.shape[1]] > 0


def with_global_tokens(batch: Batch, head: Any, sep_token_id: int | None) -> Batch:
    """Marks the global tokens of a pack that does not say which they are, if the head needs any."""
    if batch.global_tokens is not None or not isinstance(head, GLOBAL_HEADS):
        return batch
    return replace(batch, global_tokens=_in_pack(batch, lambda ids: global_columns(head, ids, sep_token_id)))


# -- Losses of the padded call, as in transformers. Labels of -100 are ignored ---------------------------------------


IGNORED = -100
REGRESSION = "regression"
PROBLEM_TYPES = (REGRESSION, "single_label_classification", "multi_label_classification")


def cross_entropy(logits: Tensor, labels: Tensor, what: str) -> Tensor:
    """Mean categorical cross-entropy in float32 or better. logits: float [n, classes]; labels: int [n]."""
    check_labels(labels, logits.shape[-1], what)
    return F.cross_entropy(to_float32(logits), labels.long())


def sequence_loss(logits: Tensor, labels: Tensor, problem_type: str | None) -> Tensor:
    """Loss of a sequence head.

    logits: float [sequences, num_labels]; labels: int [sequences] for single_label_classification, float [sequences]
    (or [sequences, num_labels]) for regression (squared error), 0/1 [sequences, num_labels] for
    multi_label_classification. problem_type None: one output means regression, integer labels single-label, others
    multi-label classification.
    """
    problem_type = problem_type or infer_problem_type(logits.shape[-1], labels)
    logits = to_float32(logits)
    if problem_type == "single_label_classification":
        return cross_entropy(logits, labels.reshape(-1), "labels")
    if labels.numel() != logits.numel():
        raise InputError(
            f"labels have shape {list(labels.shape)}; {problem_type} needs one number per output, "
            f"{logits.shape[0]} x {logits.shape[1]}."
        )
    targets = labels.reshape(logits.shape).to(logits.dtype)
    if problem_type == REGRESSION:
        return F.mse_loss(logits, targets)
    return F.binary_cross_entropy_with_logits(logits, targets)


def replaced_token_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean binary cross-entropy. logits: float [tokens]; labels: int [tokens], 1 for a replaced token."""
    wrong = labels[(labels != 0) & (labels != 1)]
    if wrong.numel():
        raise InputError(f"labels contain {wrong[0].item()}; they must be 1 for a replaced token and 0 for others.")
    logits = to_float32(logits)
    return F.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype))


def span_loss(
    start_logits: Tensor, end_logits: Tensor, starts: Tensor, ends: Tensor, keep: Tensor | None = None
) -> Tensor:
    """Mean of the cross-entropies of start and end over the columns.

    start_logits, end_logits: float [batch, seq]; starts, ends: int [batch] or [batch, 1], columns; keep: bool [batch,
    seq]. As in transformers, positions beyond the last column are ignored, and negative ones count as 0; those of
    columns that are not kept (default: all are) are ignored, too.
    """
    seq = start_logits.shape[1]
    losses = []
    for what, logits, columns in (("start_positions", start_logits, starts), ("end_positions", end_logits, ends)):
        if columns.numel() != len(logits) or columns.is_floating_point():
            raise InputError(f"{what} must be one integer per row, {len(logits)} in total.")
        targets = columns.reshape(-1).long().clamp(0, seq)
        if keep is not None:
            is_kept = keep.gather(1, targets.clamp(max=seq - 1)[:, None]).squeeze(1)
            targets = targets.masked_fill(~is_kept, seq)
        losses.append(F.cross_entropy(to_float32(logits), targets, ignore_index=seq))
    return (losses[0] + losses[1]) / 2


def infer_problem_type(num_labels: int, labels: Tensor) -> str:
    """Infers the problem type from labels, [sequences] or [sequences, num_labels], as in transformers."""
    if num_labels == 1:
        return REGRESSION
    return "multi_label_classification" if labels.is_floating_point() else "single_label_classification"


def check_labels(labels: Tensor, num_classes: int, what: str) -> None:
    """Raises InputError if a label, int of any shape [...], is neither -100 nor a class."""
    if labels.is_floating_point():
        raise InputError(f"{what} must be integers, not {str(labels.dtype).removeprefix('torch.')}.")
    wrong = labels[(labels != IGNORED) & ((labels < 0) | (labels >= num_classes))]
    if wrong.numel():
        raise InputError(
            f"{what} contain {int(wrong[0])}; they must be 0 to {num_classes - 1}, or {IGNORED} to ignore."
        )


def to_float32(logits: Tensor) -> Tensor:
    """Converts half precision to float32; keeps float32 and float64. logits: any shape [...]."""
    return logits.float() if logits.dtype in (torch.bfloat16, torch.float16) else logits


# -- Optional layers between an encoder and a task head: a scalar mix of all layers, and BiLSTMs ---------------------
#
# They use the layers of a frozen encoder as features of a small network: biLM layers (Peters et al. 2018, equation 1),
# or BERT layers (Devlin et al. 2019, section 5.3), optionally concatenated with token embeddings of the network itself
# ([x; ELMo] of Peters et al., section 3.3).


class LayerMixHead(nn.Module):
    """Scalar mix (config.mix_layers; else the last layer) followed by config.top_layers BiLSTM layers.

    With config.top_embedding_size the LSTMs also get token embeddings, concatenated after the encoder output.
    hidden_dropout applies to input and output.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.dropout_rate = config.hidden_dropout
        self.mix = ScalarMix(config.num_hidden_layers + 1) if config.mix_layers else None
        size, own = config.hidden_size, config.top_embedding_size
        self.words = Table(config.vocab_size, own) if own else None
        self.stack = (
            RecurrentStack(
                "lstm", size + own, size // 2, config.top_layers, reads="both", dropout_rate=self.dropout_rate
            )
            if config.top_layers
            else None
        )

    def forward(self, layers: Sequence[Tensor], batch: Batch) -> Tensor:
        """layers: float [tokens, hidden], the embeddings first. Returns float [tokens, hidden]."""
        hidden = layers[-1] if self.mix is None else self.mix(layers)
        if self.stack is None:
            return hidden
        if self.words is not None:
            hidden = torch.cat([hidden, self.words(batch.input_ids).to(hidden.dtype)], dim=-1)
        hidden = dropout(hidden, self.dropout_rate, self.training)
        read = self.stack(hidden, pack_whole_texts(batch.lengths, hidden.device, "lstm"))
        return dropout(read.last, self.dropout_rate, self.training)

    def mixture(self) -> dict[str, list[float] | float] | None:
        """The learned mix: layer weights `shares`, summing to 1, and `scale`; None without a mix."""
        if self.mix is None:
            return None
        return {"shares": self.mix.shares().tolist(), "scale": self.mix.scale.item()}


def make_layer_mix_head(config: ModelConfig) -> LayerMixHead | None:
    """Builds the layers of a configuration; None if the head uses the encoder's last layer."""
    return LayerMixHead(config) if config.mix_layers or config.top_layers else None


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
    config.pooling); input_dropout: dropout before that layer.
    """

    def __init__(
        self, config: ModelConfig, num_outputs: int, act: str | None, rate: float | None, input_dropout: bool
    ) -> None:
        super().__init__()
        self.needs_pooler = act is None and not config.bare_heads
        self.takes_mean = not self.needs_pooler and config.pooling != "first"
        self.pools_late = act is not None and config.pooling == "late"
        self.dropout = config.hidden_dropout if rate is None else rate
        self.input_dropout = self.dropout if input_dropout else 0.0
        if config.pooler_dropout is not None:
            self.input_dropout = config.pooler_dropout
        self.dense = None if act is None else Linear(config.hidden_size, config.hidden_size, config.head_bias)
        has_norm = self.dense is not None and config.head_dense
        self.norm = LayerNorm(config.hidden_size, config.layer_norm_eps, config.norm_bias) if has_norm else None
        self.act = None if act is None else ACTIVATIONS[act]
        self.classifier = Linear(config.hidden_size, num_outputs, bias=not config.bare_heads)

    def forward(self, vectors: Tensor) -> Tensor:
        """vectors: float [sequences, hidden]. Returns logits [sequences, num_outputs]."""
        vectors = vectors if self.pools_late else self.transform(vectors)
        logits: Tensor = self.classifier(dropout(vectors, self.dropout, self.training))
        return logits

    def transform(self, vectors: Tensor) -> Tensor:
        """The layers before the last: on the pooled vectors, or on the tokens if `pools_late`. float [..., hidden]."""
        if self.dense is not None and self.act is not None:
            vectors = self.act(self.dense(dropout(vectors, self.input_dropout, self.training)))
        return vectors if self.norm is None else self.norm(vectors)


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


def pooled_late(head: Any, hidden: Tensor) -> Tensor:
    """What a head on the mean of the tokens takes the mean of: float [..., hidden], like the hidden states."""
    return head.transform(hidden) if getattr(head, "pools_late", False) else hidden


VectorHead = FirstTokenHead | AutoencoderHead  # heads on one vector per sequence
GLOBAL_HEADS = (SequenceClassificationHead, SpanHead, ChoiceHead)  # whose tasks need global attention
TokenHead = TokenClassificationHead | SpanHead | ReplacedTokenHead
Head = MaskedLanguageModelHead | NextSentenceHead | PretrainingHead | VectorHead | TokenHead

# By the pair objective: the output of a pre-training head's second part, and the argument with its labels.
SECOND_HEAD = {"nsp": ("seq_relationship_logits", "next_sentence_label"), "sop": ("sop_logits", "sentence_order_label")}


def is_per_token(head: Head | None, name: str) -> bool:
    """Whether this output of a head is one per token, not one per sequence."""
    return name in ("prediction_logits", "start_logits", "end_logits") or (
        name == "logits" and isinstance(head, TokenHead | MaskedLanguageModelHead)
    )


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
