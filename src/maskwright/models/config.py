"""Model configuration. Every instance is valid.

Each family of published checkpoints is a combination of these settings; see the table in
docs/explanation/encoder.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..core import registry
from ..core.config import check

# -- Allowed values of the model configuration, used by `models/config.py` -------------------------------------------


# No published encoder exceeds these: a larger value is a mistake or an attack, and is rejected before anything is
# allocated.
LIMITS = {
    "vocab_size": 4_000_000,
    "hidden_size": 65_536,
    "embedding_size": 65_536,
    "num_hidden_layers": 512,
    "num_hidden_groups": 512,
    "layers_per_group": 512,
    "num_attention_heads": 1_024,
    "intermediate_size": 524_288,
    "max_position_embeddings": 1_048_576,
    "type_vocab_size": 1_024,
    "relative_buckets": 1_024,
    "relative_distance": 1_048_576,
    "window_size": 1_048_576,
    "full_attention_every": 512,
    "block_size": 65_536,
    "random_blocks": 1_024,
    "num_decoder_layers": 512,
    "decoder_vocab_size": 4_000_000,
    "character_width": 64,
    "space_token_id": 4_000_000,
    "top_layers": 64,
    "top_embedding_size": 65_536,
}
LOWEST = {
    "num_hidden_layers": 0,
    "num_decoder_layers": 0,
    "type_vocab_size": 0,
    "relative_buckets": 0,
    "full_attention_every": 0,
    "random_blocks": 0,
    "character_width": 0,
    "space_token_id": 0,
    "top_layers": 0,
    "top_embedding_size": 0,
}  # 1 for others
LARGEST_FIXED_TABLE = 1 << 26  # not stored in a file whose size would limit it
RECURRENT_CELLS = ("rnn", "gru", "lstm")
OPTIONAL_SIZES = ("embedding_size", "num_hidden_groups", "decoder_vocab_size")

CHOICES = {
    "positions": (
        "absolute",
        "offset",
        "sinusoidal",
        "sinusoidal_halves",
        "rotary",
        "relative_key",
        "relative_key_value",
        "relative_key_query",
        "none",
    ),
    "attention": ("full", "causal", "window", "global", "big_bird", "big_bird_published"),
    "attention_score": ("none", "dot", "bilinear", "mlp", "additive"),
    "norm": ("post", "pre"),
    "embedding_dropout": ("after", "before"),
    "residual_dropout": ("both", "attention", "ffn", "inner"),
    "pooling": ("first", "mean"),
    "tagging_dropout": ("classifier", "hidden"),
    "pair_objective": ("nsp", "sop"),
}
NUM_BUCKETS = 32  # distance buckets of every published network that uses them
DROPOUTS = (
    "hidden_dropout",
    "attention_dropout",
    "ffn_dropout",
    "classifier_dropout",
    "choice_dropout",
    "span_dropout",
)
NEEDED_DROPOUTS = ("hidden_dropout", "attention_dropout", "ffn_dropout", "span_dropout")
ACTIVATION_FIELDS = ("hidden_act", "mlm_act", "classifier_act", "choice_act")
SWITCHES = (
    "tie_word_embeddings",
    "pooler",
    "idle_pooler",
    "classifier_input_dropout",
    "scale_embeddings",
    "span_ffn",
    "first_norm",
    "norm_bias",
    "linear_bias",
    "gated",
    "head_dense",
    "head_bias",
    "embedding_norm",
    "bare_heads",
    "shrink_residuals",
    "qkv_bias",
    "scale_attention",
    "scale_attention_by_layer",
    "upcast_attention",
    "separate_directions",
    "recurrent_residual",
    "mix_layers",
    "input_feeding",
)


# -- Validation of the recurrent settings of `models/config.py`; config: a ModelConfig -------------------------------


def check_recurrent(config: Any) -> None:
    """Validates recurrent settings and those between encoder and head. Raises ConfigError."""
    check(
        not config.top_layers or config.hidden_size % 2 == 0,
        f"top_layers are bidirectional, each direction with half of hidden_size {config.hidden_size}: make it even.",
    )
    is_read = config.top_layers > 0 or not config.top_embedding_size
    check(is_read, "top_embedding_size is used by top_layers only: set them too.")
    check(
        not (config.has_top and config.num_decoder_layers),
        "mix_layers and top_layers do not work in an encoder-decoder: remove them.",
    )
    if config.recurrent is None:
        check(
            not (config.separate_directions or config.recurrent_residual or config.character_width),
            "separate_directions, recurrent_residual and character_width need a recurrent network: use a preset "
            "such as elmo-small, or set recurrent.",
        )
        return
    known = ", ".join(RECURRENT_CELLS)
    check(config.recurrent in RECURRENT_CELLS, f"recurrent is {config.recurrent!r}; it must be one of {known}.")
    check(
        (config.attention == "causal" and not config.separate_directions)
        or (config.attention == "full" and config.hidden_size % 2 == 0),
        "A recurrent network is unidirectional (attention 'causal') or bidirectional, separate or not (attention "
        f"'full' and an even hidden_size), not '{config.attention}' with hidden_size {config.hidden_size}.",
    )
    check(config.num_hidden_layers > 0, "A recurrent network needs at least one layer: increase num_hidden_layers.")
    heads_need_pooler = not config.bare_heads and not (config.classifier_act and config.choice_act)
    for name, is_there in (
        (f"positions '{config.positions}'", config.positions != "none"),
        ("relative_buckets", config.relative_buckets > 0),
        ("num_hidden_groups", config.num_hidden_groups is not None),
        ("character_width and num_decoder_layers", config.character_width > 0 and config.num_decoder_layers > 0),
        ("a pooler, which heads without classifier_act, choice_act or bare_heads need", heads_need_pooler),
        ("a pooler", config.pooler or config.idle_pooler),
        ("a character_width above its hidden_size", config.character_width > config.hidden_size),
    ):
        check(not is_there, f"A recurrent network does not support {name}.")


def check_attention_score(config: Any) -> None:
    """Validates the attention of a recurrent decoder. Raises ConfigError."""
    attends = config.attention_score != "none"
    check(
        not (attends or config.input_feeding) or (config.recurrent is not None and config.num_decoder_layers > 0),
        "attention_score and input_feeding need a recurrent encoder-decoder: use a preset such as seq2seq-small, or "
        "set recurrent and num_decoder_layers.",
    )
    check(attends or not config.input_feeding, "input_feeding needs attention: set attention_score too.")


@dataclass(frozen=True)
class ModelConfig:
    """Configuration of a model; the defaults are BERT-Base (Devlin et al. 2018, section 3).

    family: file format and parameter names of a saved folder; does not affect computation.

    Input.
        embedding_size: size of the embedding table, projected to hidden_size (ALBERT, ELECTRA); None for hidden_size.
        max_position_embeddings: maximum sequence length in tokens.
        positions: "absolute": learned table from row 0; "offset": from the row after pad_token_id (RoBERTa);
            "sinusoidal": fixed table; "sinusoidal_halves": the same, all sines first; "rotary": rotary_theta is the
            base; "relative_key", "relative_key_value", "relative_key_query": learned vectors of distances up to
            relative_distance in each layer (nn/positions.py); "none": only the attention pattern depends on order.
        scale_embeddings: multiply token embeddings by the square root of their size.
        embedding_norm: layer norm on the sum (GPT-2: no). embedding_dropout: "after" or "before" the norm.
        type_vocab_size: number of segments; with 0 or 1, token types are ignored.
        pad_token_id: row of the embedding table without gradient from look-ups (except in GPT-2), or None.

    Layers.
        num_hidden_layers: 0 for embeddings only (static embeddings).
        num_hidden_groups: groups that share weights among layers / groups neighboring layers (ALBERT); None for none.
        layers_per_group: different layers in a group, run in sequence; num_hidden_layers counts them all.
        relative_buckets: rows of the table of distance biases per head, used in every layer (MPNet); 0 for none.
        attention: "full"; "causal", where sequence heads use the last token; "window": tokens at most window_size / 2
            away; "global": the first and last block of block_size attend to all and are attended to by all;
            "big_bird": those, a window of three blocks, and random_blocks per query block, sampled by attention_seed;
            "big_bird_published": as in transformers, including full attention for short rows.
        full_attention_every: n for full attention in layers 0, n, 2n, ...; 0 for none.
        rotary_local_theta: rotary base of the other layers, None for rotary_theta.
        norm: "post" after each addition, "pre" before each sublayer and once at the end.
        first_norm: whether a pre-norm network has a norm before the first attention.
        gated: gated feed-forward network. linear_bias, norm_bias: biases of linear layers and of norms.
        qkv_bias: whether, with linear_bias, the q, k, v projections have a bias (optional in BigBird).
        scale_attention: divide scores by sqrt(head_dim); scale_attention_by_layer: also by the layer number, from 1;
        upcast_attention: compute attention in float32 for half precision (GPT-2).
        residual_dropout: which sublayer outputs have dropout; "inner": attention only, by attention_dropout.
        ffn_dropout: inside the feed-forward network.
        shrink_residuals: scale initial weights of residual projections by 1 / sqrt(number of residual additions)
            (Radford et al. 2019, section 2.3).

    Heads.
        tie_word_embeddings: the masked-LM head shares the embedding table. mlm_act: its activation; None: hidden_act.
        pooler: whether the bare encoder has one; idle_pooler: keep it with heads that do not use it (except spans).
        classifier_act: None to classify the pooled vector; otherwise the activation of a dense layer on the first
            token, with dropout before it if classifier_input_dropout. choice_act: the same for multiple choice.
        head_dense: token and sequence heads begin with dense, classifier_act and norm (ModernBERT).
        head_bias: bias of those dense layers and that of the masked-LM head.
        pooling: without a pooler, "first" token or "mean". bare_heads: LM heads are only the decoder; sequence heads
            one linear layer without bias; no pooler (GPT-2).
        classifier_dropout, choice_dropout: before the last layer; None for hidden_dropout (choice: the classifier's).
        tagging_dropout: dropout rate of token heads. span_dropout: before the span head; span_ffn: it has its own
            feed-forward network. question_sep_token_id: excludes the tokens up to the first of these (the question)
            from answers; without token types they are segment 0, all others segment 1 (BigBird).
        pair_objective: second pre-training head: "nsp" (next sentence) or "sop" (sentence order).

    Decoder.
        num_decoder_layers: layers with causal self-attention and cross-attention; 0 for no decoder.
        decoder_vocab_size: size of a separate target vocabulary; None for a shared vocabulary and table.
        decoder_start_token_id, eos_token_id: first and last token of a target. forced_eos_token_id: ends a target that
            reaches its length limit, at no cost to its score (BART, Marian); None: such a target is cut.

    Recurrent networks (models/recurrent.py).
        recurrent: cell, "rnn", "gru" or "lstm"; None for a Transformer. Attention "causal" means unidirectional, "full"
            bidirectional with half of hidden_size per direction.
        separate_directions: separate forward and backward stacks (ELMo). recurrent_residual: residual connections.
        attention_score: of the decoder (nn/cross.py): "none", "dot", "bilinear", "mlp" or "additive".
        input_feeding: the decoder's cells also get the attention context.
        character_width: word embeddings from characters, with filters over 1 to character_width of them
            (nn/embeddings.py); 0 for none. space_token_id: separates words; higher ids are characters.

    Between encoder and task head (models/heads.py).
        mix_layers: a learned mix of all layers instead of the last. top_layers: number of BiLSTM layers.
        top_embedding_size: size of additional token embeddings, trained with the task; 0 for none.

    Raises ConfigError if a value is out of range.
    """

    family: str = "bert"
    vocab_size: int = 30_522
    hidden_size: int = 768
    embedding_size: int | None = None
    num_hidden_layers: int = 12
    num_hidden_groups: int | None = None
    layers_per_group: int = 1
    num_attention_heads: int = 12
    intermediate_size: int = 3_072
    hidden_act: str = "gelu"
    hidden_dropout: float = 0.1
    embedding_norm: bool = True
    embedding_dropout: str = "after"
    scale_embeddings: bool = False
    attention_dropout: float = 0.1
    ffn_dropout: float = 0.0
    residual_dropout: str = "both"
    max_position_embeddings: int = 512
    positions: str = "absolute"
    rotary_theta: float = 10_000.0
    rotary_local_theta: float | None = None
    relative_distance: int = 16
    relative_buckets: int = 0
    attention: str = "full"
    full_attention_every: int = 0
    window_size: int = 128
    block_size: int = 64
    random_blocks: int = 3
    attention_seed: int = 0
    norm: str = "post"
    first_norm: bool = True
    shrink_residuals: bool = False
    norm_bias: bool = True
    linear_bias: bool = True
    qkv_bias: bool = True
    scale_attention: bool = True
    scale_attention_by_layer: bool = False
    upcast_attention: bool = False
    gated: bool = False
    type_vocab_size: int = 2
    layer_norm_eps: float = 1e-12
    initializer_range: float = 0.02
    pad_token_id: int | None = 0
    pooler: bool = True
    idle_pooler: bool = False
    tie_word_embeddings: bool = True
    mlm_act: str | None = None
    head_dense: bool = False
    head_bias: bool = True
    bare_heads: bool = False
    pooling: str = "first"
    pair_objective: str = "nsp"
    classifier_act: str | None = None
    classifier_dropout: float | None = None
    classifier_input_dropout: bool = True
    choice_act: str | None = None
    choice_dropout: float | None = None
    tagging_dropout: str = "classifier"
    span_dropout: float = 0.0
    span_ffn: bool = False
    question_sep_token_id: int | None = None
    num_decoder_layers: int = 0
    decoder_vocab_size: int | None = None
    decoder_start_token_id: int | None = None
    eos_token_id: int | None = None
    forced_eos_token_id: int | None = None
    recurrent: str | None = None
    separate_directions: bool = False
    recurrent_residual: bool = False
    attention_score: str = "none"
    input_feeding: bool = False
    character_width: int = 0
    space_token_id: int = 5
    mix_layers: bool = False
    top_layers: int = 0
    top_embedding_size: int = 0

    def __post_init__(self) -> None:
        self._check_sizes()
        for name in DROPOUTS:
            value = getattr(self, name)
            check(
                value is None or (_is_number(value) and 0 <= value < 1),
                f"{name} is {value!r}; it must be at least 0 and below 1.",
            )
        for name in NEEDED_DROPOUTS:
            check(getattr(self, name) is not None, f"{name} is None; it must be a number.")
        for name in ("layer_norm_eps", "initializer_range"):
            value = getattr(self, name)
            check(_is_number(value) and 0 < value <= 1, f"{name} is {value!r}; it must be above 0 and at most 1.")
        pad = self.pad_token_id
        check(
            pad is None or (_is_count(pad) and 0 <= pad < self.vocab_size),
            f"pad_token_id is {pad!r}; it must be in the vocabulary of {self.vocab_size:,}, or None.",
        )
        self._check_names()
        self._check_positions()
        self._check_decoder()
        check_recurrent(self)
        check_attention_score(self)

    def _check_sizes(self) -> None:
        for name, limit in LIMITS.items():
            value, lowest = getattr(self, name), LOWEST.get(name, 1)
            check(
                (value is None and name in OPTIONAL_SIZES) or (_is_count(value) and lowest <= value <= limit),
                f"{name} is {value!r}; it must be an integer from {lowest} to {limit:,}.",
            )
        check(
            self.hidden_size % self.num_attention_heads == 0,
            f"hidden_size {self.hidden_size} is not a multiple of its {self.num_attention_heads} heads: "
            "change num_attention_heads or hidden_size.",
        )
        check(
            self.relative_buckets == 0 or self.relative_buckets >= NUM_BUCKETS,
            f"relative_buckets is {self.relative_buckets}; distances use {NUM_BUCKETS} buckets: "
            "set 0 for none, or at least that many.",
        )
        self._check_groups()

    def _check_groups(self) -> None:
        groups, inner, layers = self.num_hidden_groups, self.layers_per_group, self.num_hidden_layers
        check(
            groups is None or groups <= layers,
            f"num_hidden_groups is {groups}, more than the {layers} layers: decrease it.",
        )
        check(
            inner == 1 or groups is not None,
            f"layers_per_group is {inner}, but the layers have no groups: set num_hidden_groups.",
        )
        check(
            inner == 1 or (layers % inner == 0 and (groups or 0) * inner <= layers),
            f"{layers} layers cannot be divided into groups of layers_per_group {inner} with at least one for each of "
            f"the {groups} num_hidden_groups: change one of the three.",
        )
        check(
            groups is None or not self.scale_attention_by_layer,
            "scale_attention_by_layer does not work with num_hidden_groups, where layers share weights: set only one.",
        )

    def _check_names(self) -> None:
        if self.family not in registry.TABLE["family"]:  # entry points are slow, so only if needed
            registry.resolve("family", str(self.family))
        for name in SWITCHES:
            value = getattr(self, name)
            check(isinstance(value, bool), f"{name} is {value!r}; it must be true or false.")
        for name, known in CHOICES.items():
            value = getattr(self, name)
            check(value in known, f"{name} is {value!r}; it must be one of {', '.join(known)}.")
        for name in ACTIVATION_FIELDS:
            _check_activation(name, getattr(self, name), may_be_none=name != "hidden_act")
        sep = self.question_sep_token_id
        check(
            sep is None or (_is_count(sep) and sep >= 0),
            f"question_sep_token_id is {sep!r}; it must be a token id, or None.",
        )
        check(not self.head_dense or self.classifier_act is not None, "head_dense needs an activation: classifier_act.")
        has_layers = self.classifier_act or self.choice_act or self.pooler or self.idle_pooler
        check(
            not (self.bare_heads and has_layers),
            "bare_heads are one linear layer: set pooler and idle_pooler false, classifier_act and choice_act null.",
        )

    def _check_positions(self) -> None:
        check(
            self.positions != "offset" or self.pad_token_id is not None,
            "positions 'offset' start after the padding token's row: set pad_token_id.",
        )
        for name in ("rotary_theta", "rotary_local_theta"):
            value = getattr(self, name)
            check(
                (value is None and name == "rotary_local_theta") or (_is_number(value) and 0 < value < 1e15),
                f"{name} is {value!r}; it must be above 0.",
            )
        check(
            self.positions != "rotary" or self.head_dim % 2 == 0,
            f"Rotary positions need an even head dimension, not {self.head_dim}: change num_attention_heads.",
        )
        check(
            not self.positions.startswith("sinusoidal")
            or self.max_position_embeddings * self.table_size <= LARGEST_FIXED_TABLE,
            f"Sinusoidal positions of {self.max_position_embeddings:,} tokens and size {self.table_size:,} need a "
            f"table of more than {LARGEST_FIXED_TABLE:,} numbers: decrease max_position_embeddings.",
        )
        check(
            not (self.relative_buckets and self.positions.startswith("relative")),
            f"positions '{self.positions}' and relative_buckets are two kinds of relative positions: use only one.",
        )
        check(
            self.attention != "causal" or not self.full_attention_every,
            "full_attention_every does not work with causal attention, which masks later tokens: set it to 0.",
        )
        check(
            _is_count(self.attention_seed) and abs(self.attention_seed) < 2**63,
            f"attention_seed is {self.attention_seed!r}; it must be an integer.",
        )

    def _check_decoder(self) -> None:
        for name in ("decoder_start_token_id", "eos_token_id", "forced_eos_token_id"):
            value = getattr(self, name)
            check(
                value is None or (_is_count(value) and 0 <= value < self.target_vocab_size),
                f"{name} is {value!r}; it must be in the vocabulary of {self.target_vocab_size:,}, or None.",
            )
        if not self.num_decoder_layers:
            check(self.decoder_vocab_size is None, "decoder_vocab_size needs a decoder: set num_decoder_layers.")
            return
        for name, is_there in (
            ("attention 'causal'", self.attention == "causal" and self.recurrent is None),
            ("embedding_size", self.embedding_size is not None),
            ("relative_buckets", self.relative_buckets > 0),
            ("layers_per_group", self.layers_per_group > 1),
            ("scale_attention_by_layer", self.scale_attention_by_layer),
            ("scale_attention false", not self.scale_attention),
            ("qkv_bias false", not self.qkv_bias),
        ):
            check(not is_there, f"An encoder-decoder (num_decoder_layers) does not support {name}.")

    @property
    def has_top(self) -> bool:
        """Whether there are layers between the encoder and a task head."""
        return self.mix_layers or self.top_layers > 0

    @property
    def direction_size(self) -> int:
        """Hidden size of one direction of a recurrent network."""
        return self.hidden_size if self.pools_last_token else self.hidden_size // 2

    @property
    def target_vocab_size(self) -> int:
        """Vocabulary size of the decoder."""
        return self.decoder_vocab_size or self.vocab_size

    @property
    def attends(self) -> bool:
        """Whether the encoder's layers have attention weights; those of recurrent networks do not."""
        return self.recurrent is None and self.num_hidden_layers > 0

    @property
    def head_dim(self) -> int:
        """Size of one attention head."""
        return self.hidden_size // self.num_attention_heads

    @property
    def table_size(self) -> int:
        """Size of a token embedding."""
        return self.embedding_size or self.hidden_size

    @property
    def pools_last_token(self) -> bool:
        """Whether sequence heads use the last token: with causal attention the first attends only to itself."""
        return self.attention == "causal"

    @property
    def position_offset(self) -> int:
        """The row of the position table for the first token of a sequence."""
        return (self.pad_token_id or 0) + 1 if self.positions == "offset" else 0

    @property
    def num_layer_sets(self) -> int:
        """Number of different sets of layer weights."""
        return (
            self.num_hidden_layers if self.num_hidden_groups is None else self.num_hidden_groups * self.layers_per_group
        )

    @property
    def layer_groups(self) -> tuple[int, ...]:
        """Index of the set of weights of each layer."""
        layers, groups, inner = self.num_hidden_layers, self.num_hidden_groups, self.layers_per_group
        if groups is None:
            return tuple(range(layers))
        runs = layers // inner  # passes through a group, from its first to its last layer
        return tuple(int(run / (runs / groups)) * inner + place for run in range(runs) for place in range(inner))


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _check_activation(field: str, name: object, may_be_none: bool) -> None:
    from ..nn.layers import ACTIVATIONS

    check(
        (name is None and may_be_none) or (isinstance(name, str) and name in ACTIVATIONS),
        f"{field} {name!r} is not supported. Known: {', '.join(ACTIVATIONS)}.",
    )
