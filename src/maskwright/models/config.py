"""The sizes and switches of one encoder. A configuration that exists is valid.

Every family of published checkpoints is one setting of these switches; docs/architecture.md has the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..core import registry
from ..core.config import check

# Beyond these no published encoder goes: a configuration that asks for more is a mistake or an attack, and is
# refused before anything is allocated.
LIMITS = {
    "vocab_size": 4_000_000,
    "hidden_size": 65_536,
    "embedding_size": 65_536,
    "num_hidden_layers": 512,
    "num_hidden_groups": 512,
    "num_attention_heads": 1_024,
    "intermediate_size": 524_288,
    "max_position_embeddings": 1_048_576,
    "type_vocab_size": 1_024,
    "relative_buckets": 1_024,
}
LOWEST = {"type_vocab_size": 0, "relative_buckets": 0}  # 1 for the others
OPTIONAL_SIZES = ("embedding_size", "num_hidden_groups")

CHOICES = {
    "positions": ("absolute", "offset"),
    "residual_dropout": ("both", "attention", "ffn"),
    "tagging_dropout": ("classifier", "hidden"),
    "pair_objective": ("nsp", "sop"),
}
NUM_BUCKETS = 32  # of distances, in every published network that has them
_DROPOUTS = ("hidden_dropout", "attention_dropout", "classifier_dropout", "choice_dropout", "span_dropout")
_ACTIVATIONS = ("hidden_act", "mlm_act", "classifier_act", "choice_act")
_SWITCHES = ("tie_word_embeddings", "pooler", "classifier_input_dropout")


@dataclass(frozen=True)
class ModelConfig:
    """An encoder in the names of the field; the defaults are BERT-Base (Devlin et al. 2018, section 3).

    family: whose file format and names a saved folder has; it changes no number.

    Input. embedding_size: width of the tables, projected to hidden_size (ALBERT, ELECTRA); None means
    hidden_size, without a projection. max_position_embeddings: tokens that a sequence may have. positions:
    "absolute" counts from row 0 of the position table, "offset" from the row after pad_token_id (RoBERTa).
    type_vocab_size: segments that the network tells apart; with 0 or 1 token types are ignored. pad_token_id: the
    row of the word table that gets no gradient from look-ups, or None.

    Layers. num_hidden_groups: sets of layer weights, each used by layers / groups neighbouring layers (ALBERT);
    None gives every layer its own. relative_buckets: a learned score for each bucket of distances and each head,
    added in every layer (MPNet): rows of that table, 0 for none. residual_dropout: which outputs are dropped before
    they are added.

    Heads. tie_word_embeddings: the masked-language-model head multiplies with the word table itself. mlm_act: its
    activation, None for hidden_act. pooler: whether the bare encoder has one. classifier_act: None judges the
    pooled vector; a name gives the sequence head a dense layer of its own on the first token, with that activation
    and, if classifier_input_dropout, dropout before it. choice_act: the same for multiple choice.
    classifier_dropout, choice_dropout: before the last layer; None means hidden_dropout, and for choices the
    classifier's. tagging_dropout: whose dropout a token head has. span_dropout: before the span head.
    pair_objective: what the second pre-training head judges: "nsp" (does B follow?) or "sop" (are A and B in order?).

    Raises ConfigError when a value is out of range.
    """

    family: str = "bert"
    vocab_size: int = 30_522
    hidden_size: int = 768
    embedding_size: int | None = None
    num_hidden_layers: int = 12
    num_hidden_groups: int | None = None
    num_attention_heads: int = 12
    intermediate_size: int = 3_072
    hidden_act: str = "gelu"
    hidden_dropout: float = 0.1
    attention_dropout: float = 0.1
    residual_dropout: str = "both"
    max_position_embeddings: int = 512
    positions: str = "absolute"
    relative_buckets: int = 0
    type_vocab_size: int = 2
    layer_norm_eps: float = 1e-12
    initializer_range: float = 0.02
    pad_token_id: int | None = 0
    pooler: bool = True
    tie_word_embeddings: bool = True
    mlm_act: str | None = None
    pair_objective: str = "nsp"
    classifier_act: str | None = None
    classifier_dropout: float | None = None
    classifier_input_dropout: bool = True
    choice_act: str | None = None
    choice_dropout: float | None = None
    tagging_dropout: str = "classifier"
    span_dropout: float = 0.0

    def __post_init__(self) -> None:
        self._check_sizes()
        for name in _DROPOUTS:
            value = getattr(self, name)
            check(
                value is None or (_is_number(value) and 0 <= value < 1),
                f"{name} is {value!r}; it must be from 0 to below 1.",
            )
        check(self.hidden_dropout is not None, "hidden_dropout is None; it must be a number.")
        check(self.attention_dropout is not None, "attention_dropout is None; it must be a number.")
        check(self.span_dropout is not None, "span_dropout is None; it must be a number.")
        for name in ("layer_norm_eps", "initializer_range"):
            value = getattr(self, name)
            check(_is_number(value) and 0 < value <= 1, f"{name} is {value!r}; it must be above 0 and at most 1.")
        pad = self.pad_token_id
        check(
            pad is None or (_is_count(pad) and 0 <= pad < self.vocab_size),
            f"pad_token_id is {pad!r}; it must lie inside the vocabulary of {self.vocab_size:,}, or be None.",
        )
        self._check_names()

    def _check_sizes(self) -> None:
        for name, limit in LIMITS.items():
            value, lowest = getattr(self, name), LOWEST.get(name, 1)
            check(
                (value is None and name in OPTIONAL_SIZES) or (_is_count(value) and lowest <= value <= limit),
                f"{name} is {value!r}; it must be a whole number, {lowest} to {limit:,}.",
            )
        check(
            self.hidden_size % self.num_attention_heads == 0,
            f"hidden_size {self.hidden_size} is no multiple of its {self.num_attention_heads} heads: "
            "change num_attention_heads or hidden_size.",
        )
        check(
            self.relative_buckets == 0 or self.relative_buckets >= NUM_BUCKETS,
            f"relative_buckets is {self.relative_buckets}; distances fall into {NUM_BUCKETS} buckets: "
            "give 0 for none, or at least that many.",
        )
        groups = self.num_hidden_groups
        check(
            groups is None or groups <= self.num_hidden_layers,
            f"num_hidden_groups is {groups}, more than the {self.num_hidden_layers} layers: lower it.",
        )

    def _check_names(self) -> None:
        if self.family not in registry.TABLE["family"]:  # only then ask the entry points, which is slow
            registry.resolve("family", str(self.family))
        for name in _SWITCHES:
            value = getattr(self, name)
            check(isinstance(value, bool), f"{name} is {value!r}; it must be true or false.")
        for name, known in CHOICES.items():
            value = getattr(self, name)
            check(value in known, f"{name} is {value!r}; it must be one of {', '.join(known)}.")
        for name in _ACTIVATIONS:
            _check_activation(name, getattr(self, name), may_be_none=name != "hidden_act")
        check(
            self.positions != "offset" or self.pad_token_id is not None,
            "positions 'offset' count from the padding token's row: give pad_token_id.",
        )

    @property
    def head_dim(self) -> int:
        """Width of one attention head."""
        return self.hidden_size // self.num_attention_heads

    @property
    def table_size(self) -> int:
        """Width of the word table."""
        return self.embedding_size or self.hidden_size

    @property
    def position_offset(self) -> int:
        """The row of the position table at which a sequence's first token stands."""
        return (self.pad_token_id or 0) + 1 if self.positions == "offset" else 0

    @property
    def layer_groups(self) -> tuple[int, ...]:
        """For each layer, which set of weights it uses."""
        layers, groups = self.num_hidden_layers, self.num_hidden_groups
        return tuple(i if groups is None else int(i / (layers / groups)) for i in range(layers))


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _check_activation(field: str, name: object, may_be_none: bool) -> None:
    from ..nn.activations import ACTIVATIONS

    check(
        (name is None and may_be_none) or (isinstance(name, str) and name in ACTIVATIONS),
        f"{field} {name!r} is not supported. Known: {', '.join(ACTIVATIONS)}.",
    )
