"""The sizes and switches of one encoder. A configuration that exists is valid."""

from __future__ import annotations

from dataclasses import dataclass

from ..core.config import check

# Beyond these no published encoder goes: a configuration that asks for more is a mistake or an attack, and is
# refused before anything is allocated.
LIMITS = {
    "vocab_size": 4_000_000,
    "hidden_size": 65_536,
    "num_hidden_layers": 512,
    "num_attention_heads": 1_024,
    "intermediate_size": 524_288,
    "max_position_embeddings": 1_048_576,
    "type_vocab_size": 1_024,
}


@dataclass(frozen=True)
class ModelConfig:
    """An encoder in the names of the field; the defaults are BERT-Base (Devlin et al. 2018, section 3).

    classifier_dropout: before the classifier; None means hidden_dropout. pad_token_id: the row of the word
    table that gets no gradient from look-ups, or None. tie_word_embeddings: the masked-language-model head
    multiplies with the word table itself. Raises ConfigError when a value is out of range.
    """

    vocab_size: int = 30_522
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3_072
    hidden_act: str = "gelu"
    hidden_dropout: float = 0.1
    attention_dropout: float = 0.1
    classifier_dropout: float | None = None
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    layer_norm_eps: float = 1e-12
    initializer_range: float = 0.02
    pad_token_id: int | None = 0
    tie_word_embeddings: bool = True

    def __post_init__(self) -> None:
        for name, limit in LIMITS.items():
            value = getattr(self, name)
            is_count = isinstance(value, int) and not isinstance(value, bool)
            check(
                is_count and 0 < value <= limit,
                f"{name} is {value!r}; it must be a whole number, 1 to {limit:,}.",
            )
        check(
            self.hidden_size % self.num_attention_heads == 0,
            f"hidden_size {self.hidden_size} is no multiple of its {self.num_attention_heads} heads: "
            "change num_attention_heads or hidden_size.",
        )
        for name in ("hidden_dropout", "attention_dropout", "classifier_dropout"):
            value = getattr(self, name)
            if value is not None:
                check(
                    _is_number(value) and 0 <= value < 1,
                    f"{name} is {value!r}; it must be from 0 to below 1.",
                )
        for name in ("layer_norm_eps", "initializer_range"):
            value = getattr(self, name)
            check(
                _is_number(value) and 0 < value <= 1,
                f"{name} is {value!r}; it must be above 0 and at most 1.",
            )
        pad = self.pad_token_id
        check(
            pad is None or (isinstance(pad, int) and not isinstance(pad, bool) and 0 <= pad < self.vocab_size),
            f"pad_token_id is {pad!r}; it must lie inside the vocabulary of {self.vocab_size:,}, or be None.",
        )
        tied = self.tie_word_embeddings
        check(isinstance(tied, bool), f"tie_word_embeddings is {tied!r}; it must be true or false.")
        _check_activation(self.hidden_act)

    @property
    def head_dim(self) -> int:
        """Width of one attention head."""
        return self.hidden_size // self.num_attention_heads


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _check_activation(name: object) -> None:
    from ..nn.activations import ACTIVATIONS

    check(
        isinstance(name, str) and name in ACTIVATIONS,
        f"hidden_act {name!r} is not supported. Known: {', '.join(ACTIVATIONS)}.",
    )
