"""The sizes and switches of one encoder. A configuration that exists is valid.

Every family of published checkpoints is one setting of these switches; docs/architecture.md has the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..core import registry
from ..core.config import check
from .config_tables import (
    ACTIVATION_FIELDS,
    CHOICES,
    DROPOUTS,
    LARGEST_FIXED_TABLE,
    LIMITS,
    LOWEST,
    NEEDED_DROPOUTS,
    NUM_BUCKETS,
    OPTIONAL_SIZES,
    RECURRENT_CELLS,
    SWITCHES,
)


@dataclass(frozen=True)
class ModelConfig:
    """An encoder in the names of the field; the defaults are BERT-Base (Devlin et al. 2018, section 3).

    family: whose file format and names a saved folder has; it changes no number.

    Input. embedding_size: width of the tables, projected to hidden_size (ALBERT, ELECTRA); None means
    hidden_size, without a projection. max_position_embeddings: tokens that a sequence may have. positions:
    "absolute" counts from row 0 of a learned table, "offset" from the row after pad_token_id (RoBERTa); "sinusoidal"
    is the fixed table of Vaswani et al., "sinusoidal_halves" the same with all sines before all cosines; "rotary" turns
    queries and keys by angles of base rotary_theta; "relative_key", "relative_key_value", "relative_key_query" learn
    vectors of distances up to relative_distance in each layer (nn/relative.py); "none" knows no order but what
    attention's rule tells. scale_embeddings: whether word vectors are multiplied by the square root of their width.
    embedding_norm: whether their sum is normed (GPT-2: no). embedding_dropout: after or before the norm.
    type_vocab_size: segments that the network tells apart; with 0 or 1 token types are ignored. pad_token_id: the
    row of the word table that gets no gradient from look-ups (but in GPT-2, where it has one), or None.

    Layers. num_hidden_layers: 0 for a network that is its word table, as static vectors are. num_hidden_groups:
    sets of layer weights, each used by layers / groups neighbouring layers (ALBERT);
    None gives every layer its own. relative_buckets: a learned score for each bucket of distances and each head,
    added in every layer (MPNet): rows of that table, 0 for none. attention: who sees whom. "full": all see all;
    "causal": each sees itself and those before it, and heads on whole sequences judge the last token; "window": tokens
    at most window_size / 2 away; "global": the first and the last of the blocks of block_size see all and are seen by
    all; "big_bird": those, a window of three blocks, and random_blocks further ones that attention_seed draws;
    "big_bird_published": as transformers runs it, its full attention for short rows included.
    full_attention_every: n lets layers 0, n, 2n, ... attend fully; 0 none. rotary_local_theta: the base of the other
    layers, None for the same. norm: "post" after each addition, "pre" before each part and once at the end;
    first_norm: whether a pre-norm network has one before the first attention. gated: the feed-forward network
    multiplies its activation by a second projection. linear_bias, norm_bias: biases of the layers, of all norms.
    residual_dropout: which outputs are dropped before they are added; "inner" drops attention's by
    attention_dropout. ffn_dropout: inside the feed-forward network. shrink_residuals: the first weights of all that is
    added to hidden states are smaller by the square root of how many such sums there are (Radford et al. 2019, section
    2.3).

    Heads. tie_word_embeddings: the masked-language-model head multiplies with the word table itself. mlm_act: its
    activation, None for hidden_act. pooler: whether the bare encoder has one; idle_pooler: heads that do not need it
    (but spans) keep it all the same. classifier_act: None judges the pooled vector; a name gives the sequence head a
    dense layer of its own on the first token, with that activation and, if classifier_input_dropout, dropout before it.
    choice_act: the same for multiple choice. head_dense: heads on tokens and texts begin with dense, classifier_act and
    norm (ModernBERT). head_bias: of those dense layers and that of the masked-language-model head. pooling: what a head
    without a pooler judges, the first token or the mean. bare_heads: heads that guess words are the decoder alone,
    without dense layer, norm and bias; those on whole texts one linear layer without bias, and there is no pooler
    (GPT-2). classifier_dropout, choice_dropout: before the last layer;
    None means hidden_dropout, and for choices the classifier's. tagging_dropout: whose dropout a token head has.
    span_dropout: before the span head; span_ffn: that head has a feed-forward network of its own;
    question_sep_token_id: it rules out the tokens up to the first of these, the question, and takes them for segment
    0, all others for segment 1, where no token types are given (BigBird). pair_objective: what the
    second pre-training head judges: "nsp" (does B follow?) or "sop" (are A and B in order?).

    Decoder. num_decoder_layers: layers that write a second text, of the same sizes as the others, each attending to its
    own text from the left and to the first one; 0 for a network without. decoder_vocab_size: of a vocabulary of its
    own; None for one vocabulary, whose table both sides share. decoder_start_token_id: what stands before a text that
    is written; eos_token_id: what ends it.

    Recurrent networks (models/recurrent.py). recurrent: their cell, "rnn", "gru" or "lstm"; None for a Transformer.
    Attention "causal" reads from the left, "full" from both ends, each with half of hidden_size; separate_directions:
    two stacks read from the two ends and never meet (ELMo); recurrent_residual: each layer adds to what it reads.
    With num_decoder_layers a second one writes (models/recurrent_writer.py): attention_score: how it looks at what was
    read, "none", "dot", "bilinear", "mlp" or "additive" (nn/alignment.py); input_feeding: its cells read the context.
    character_width: tokens are characters, and filters over 1 to so many neighbours make one vector of each word, which
    is what the layers read (nn/characters.py); 0 for none. space_token_id: between words; above it are characters.

    Between the encoder and a task's head (models/top.py). mix_layers: the head reads a learned mix of all layers, not
    the last; top_layers: so many LSTMs from both ends stand between them; top_embedding_size: and read, beside what the
    encoder gives, vectors of the tokens that are learnt with the task; 0 for none.

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
                f"{name} is {value!r}; it must be from 0 to below 1.",
            )
        for name in NEEDED_DROPOUTS:
            check(getattr(self, name) is not None, f"{name} is None; it must be a number.")
        for name in ("layer_norm_eps", "initializer_range"):
            value = getattr(self, name)
            check(_is_number(value) and 0 < value <= 1, f"{name} is {value!r}; it must be above 0 and at most 1.")
        pad = self.pad_token_id
        check(
            pad is None or (_is_count(pad) and 0 <= pad < self.vocab_size),
            f"pad_token_id is {pad!r}; it must lie inside the vocabulary of {self.vocab_size:,}, or be None.",
        )
        self._check_names()
        self._check_positions()
        self._check_decoder()
        self._check_recurrent()
        self._check_looking()

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
            f"question_sep_token_id is {sep!r}; it must be a token's id, or None.",
        )
        check(not self.head_dense or self.classifier_act is not None, "head_dense needs an activation: classifier_act.")
        has_layers = self.classifier_act or self.choice_act or self.pooler or self.idle_pooler
        check(
            not (self.bare_heads and has_layers),
            "bare_heads are one linear layer: pooler, idle_pooler must be false, classifier_act and choice_act null.",
        )

    def _check_positions(self) -> None:
        check(
            self.positions != "offset" or self.pad_token_id is not None,
            "positions 'offset' count from the padding token's row: give pad_token_id.",
        )
        for name in ("rotary_theta", "rotary_local_theta"):
            value = getattr(self, name)
            check(
                (value is None and name == "rotary_local_theta") or (_is_number(value) and 0 < value < 1e15),
                f"{name} is {value!r}; it must be above 0.",
            )
        check(
            self.positions != "rotary" or self.head_dim % 2 == 0,
            f"Heads of width {self.head_dim} cannot have rotary positions, which turn pairs: "
            "change num_attention_heads.",
        )
        check(
            not self.positions.startswith("sinusoidal")
            or self.max_position_embeddings * self.table_size <= LARGEST_FIXED_TABLE,
            f"Sinusoidal positions of {self.max_position_embeddings:,} tokens and width {self.table_size:,} are a "
            f"table of more than {LARGEST_FIXED_TABLE:,} numbers: lower max_position_embeddings.",
        )
        check(
            not (self.relative_buckets and self.positions.startswith("relative")),
            f"positions '{self.positions}' and relative_buckets are two kinds of distances: take one.",
        )
        check(
            self.attention != "causal" or not self.full_attention_every,
            "full_attention_every lets tokens see later ones, which causal attention is there to prevent: set it to 0.",
        )
        check(
            _is_count(self.attention_seed) and abs(self.attention_seed) < 2**63,
            f"attention_seed is {self.attention_seed!r}; it must be a whole number.",
        )

    def _check_decoder(self) -> None:
        for name in ("decoder_start_token_id", "eos_token_id"):
            value = getattr(self, name)
            check(
                value is None or (_is_count(value) and 0 <= value < self.target_vocab_size),
                f"{name} is {value!r}; it must lie inside the vocabulary of {self.target_vocab_size:,}, or be None.",
            )
        if not self.num_decoder_layers:
            check(self.decoder_vocab_size is None, "decoder_vocab_size needs a decoder: set num_decoder_layers.")
            return
        for name, is_there in (
            ("attention 'causal'", self.attention == "causal" and self.recurrent is None),
            ("embedding_size", self.embedding_size is not None),
            ("relative_buckets", self.relative_buckets > 0),
        ):
            check(not is_there, f"An encoder-decoder (num_decoder_layers) does not go with {name}.")

    def _check_recurrent(self) -> None:
        check(
            not self.top_layers or self.hidden_size % 2 == 0,
            f"top_layers read from both ends, each with half of hidden_size {self.hidden_size}: make it even.",
        )
        is_read = self.top_layers > 0 or not self.top_embedding_size
        check(is_read, "top_embedding_size is read by top_layers: set them too.")
        check(
            not (self.has_top and self.num_decoder_layers),
            "mix_layers and top_layers stand before heads on one text: an encoder-decoder has none.",
        )
        if self.recurrent is None:
            check(
                not (self.separate_directions or self.recurrent_residual or self.character_width),
                "separate_directions, recurrent_residual and character_width are of recurrent networks: take a preset "
                "such as elmo-small, or set recurrent.",
            )
            return
        known = ", ".join(RECURRENT_CELLS)
        check(self.recurrent in RECURRENT_CELLS, f"recurrent is {self.recurrent!r}; it must be one of {known}.")
        check(
            (self.attention == "causal" and not self.separate_directions)
            or (self.attention == "full" and self.hidden_size % 2 == 0),
            "A recurrent network reads from the left (attention 'causal'), or from both ends, apart or not (attention "
            f"'full' and an even hidden_size), not '{self.attention}' with hidden_size {self.hidden_size}.",
        )
        check(self.num_hidden_layers > 0, "A recurrent network has at least one layer: raise num_hidden_layers.")
        heads_need_pooler = not self.bare_heads and not (self.classifier_act and self.choice_act)
        for name, is_there in (
            (f"positions '{self.positions}'", self.positions != "none"),
            ("relative_buckets", self.relative_buckets > 0),
            ("num_hidden_groups", self.num_hidden_groups is not None),
            ("character_width and num_decoder_layers", self.character_width > 0 and self.num_decoder_layers > 0),
            ("a pooler, which heads without classifier_act, choice_act or bare_heads need", heads_need_pooler),
            ("a pooler", self.pooler or self.idle_pooler),
            ("a character_width above its hidden_size", self.character_width > self.hidden_size),
        ):
            check(not is_there, f"A recurrent network does not go with {name}.")

    def _check_looking(self) -> None:
        """How a recurrent decoder looks at what was read."""
        looks = self.attention_score != "none"
        check(
            not (looks or self.input_feeding) or (self.recurrent is not None and self.num_decoder_layers > 0),
            "attention_score and input_feeding are of recurrent networks that write: take a preset such as "
            "seq2seq-small, or set recurrent and num_decoder_layers.",
        )
        check(looks or not self.input_feeding, "input_feeding feeds what attention finds: set attention_score too.")

    @property
    def has_top(self) -> bool:
        """Whether something stands between the encoder and a task's head."""
        return self.mix_layers or self.top_layers > 0

    @property
    def direction_size(self) -> int:
        """Of a recurrent network: what a cell of one direction remembers."""
        return self.hidden_size if self.judges_last else self.hidden_size // 2

    @property
    def target_vocab_size(self) -> int:
        """Tokens of which the decoder writes."""
        return self.decoder_vocab_size or self.vocab_size

    @property
    def attends(self) -> bool:
        """Whether the layers of the encoder have attention weights: those of recurrent networks do not."""
        return self.recurrent is None and self.num_hidden_layers > 0

    @property
    def head_dim(self) -> int:
        """Width of one attention head."""
        return self.hidden_size // self.num_attention_heads

    @property
    def table_size(self) -> int:
        """Width of the word table."""
        return self.embedding_size or self.hidden_size

    @property
    def judges_last(self) -> bool:
        """Whether heads on whole sequences judge the last token: under causal attention the first sees only itself."""
        return self.attention == "causal"

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
