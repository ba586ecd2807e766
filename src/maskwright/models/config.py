"""Model configuration. Every instance is valid.

Each family of published checkpoints is a combination of these settings; see the table in
docs/explanation/encoder.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from ..core import registry
from ..core.config import check
from ..core.errors import InputError

LARGEST_FIXED_TABLE = 1 << 26  # not stored in a file whose size would limit it
NUM_BUCKETS = 32  # distance buckets of every published network that uses them
CELLS = ("rnn", "gru", "lstm")


def _size(default: int | None, most: int, least: int = 1) -> Any:
    """An integer from `least` to `most`, or None if that is the default.

    No published encoder exceeds these: a larger value is a mistake or an attack, and is rejected before anything is
    allocated.
    """
    return field(default=default, metadata={"range": (least, most)})


def _rate(default: float | None) -> Any:
    """A dropout rate, or None if that is the default."""
    return field(default=default, metadata={"rate": True})


def _one_of(*choices: str) -> Any:
    """One of these names; the first is the default."""
    return field(default=choices[0], metadata={"choices": choices})


@dataclass(frozen=True)
class ModelConfig:
    """Configuration of a model; the defaults are BERT-Base (Devlin et al. 2018, section 3).

    Raises ConfigError if a value is out of range.
    """

    family: str = "bert"  # file format and parameter names of a saved folder; does not affect computation
    vocab_size: int = _size(30_522, 4_000_000)
    hidden_size: int = _size(768, 65_536)
    # Of the embedding table, projected to hidden_size (ALBERT, ELECTRA); None for hidden_size.
    embedding_size: int | None = _size(None, 65_536)
    project_first: bool = False  # before the embeddings' norm, and without a bias (DeBERTa)
    num_hidden_layers: int = _size(12, 512, 0)  # 0 for embeddings only (static embeddings)
    # Groups that share weights among layers / groups neighboring layers (ALBERT); None for none.
    num_hidden_groups: int | None = _size(None, 512)
    layers_per_group: int = _size(1, 512)  # different layers in a group, run in sequence; num_hidden_layers counts all
    num_attention_heads: int = _size(12, 1_024)
    # Heads of keys and values, each shared by a group of query heads; None for num_attention_heads.
    num_key_value_heads: int | None = _size(None, 1_024)
    attention_head_size: int | None = _size(None, 65_536)  # None for hidden_size / num_attention_heads
    intermediate_size: int = _size(3_072, 524_288)
    hidden_act: str = "gelu"
    hidden_dropout: float = _rate(0.1)
    embedding_norm: bool = True  # layer norm on the sum of the embeddings (GPT-2: no)
    embedding_dropout: str = _one_of("after", "before", "none")  # the norm
    scale_embeddings: bool = False  # multiply token embeddings by the square root of their size
    # Token whose embedding is 0; the others are scaled by 0.88 / the fraction of other tokens (ESM); None for none.
    token_dropout_id: int | None = None
    attention_dropout: float = _rate(0.1)
    ffn_dropout: float = _rate(0.0)  # inside the feed-forward network
    # Which sublayer outputs have dropout; "inner": attention only, by attention_dropout.
    residual_dropout: str = _one_of("both", "attention", "ffn", "inner")
    max_position_embeddings: int = _size(512, 1_048_576)  # maximum sequence length in tokens
    # "absolute": learned table from row 0; "offset": from the row after pad_token_id (RoBERTa); "sinusoidal": fixed
    # table; "sinusoidal_halves": the same, all sines first; "rotary"; "relative_...": learned vectors of distances in
    # each layer (nn/positions.py); "none": only the attention pattern depends on order.
    positions: str = _one_of(
        "absolute",
        "offset",
        "sinusoidal",
        "sinusoidal_halves",
        "rotary",
        "relative_key",
        "relative_key_value",
        "relative_key_query",
        "none",
    )
    rotary_theta: float = 10_000.0  # base of the angles
    rotary_local_theta: float | None = None  # of layers without full attention; None for rotary_theta
    # For longer texts than in training, as transformers' rope_parameters without rope_theta: see SCALINGS.
    rotary_scaling: dict[str, Any] | None = field(default=None, hash=False)
    rotary_pairs: str = _one_of("halves", "neighbors")  # dimensions that are rotated together (nn/positions.py)
    rotary_float16: bool = False  # frequencies rounded to float16, in which ESM-2 was trained
    rotary_values: bool = False  # rotate values, too (RoFormer)
    relative_distance: int = _size(16, 1_048_576)  # greater distances share a vector
    relative_buckets: int = _size(0, 1_024, 0)  # rows of one table of distance biases per head (MPNet); 0 for none
    # Disentangled attention (nn/disentangled.py): terms of content to position, position to content, or both, in
    # addition to `positions`. Distances above relative_distance share a vector.
    position_attention: str = _one_of("none", "c2p", "p2c", "both")
    position_buckets: int = _size(0, 65_536, 0)  # logarithmic, of each direction; 0 for a vector per distance
    position_norm: bool = False  # layer norm of the position vectors
    share_position_keys: bool = False  # projected like the tokens, instead of by projections of their own
    # "causal": sequence heads use the last token; "window": tokens at most window_size / 2 away; "global": the first
    # and last block of block_size attend to all and are attended to by all; "big_bird": those, a window of three
    # blocks, and random_blocks per query block, sampled by attention_seed; "big_bird_published": as in transformers,
    # including full attention for short rows.
    attention: str = _one_of("full", "causal", "window", "global", "big_bird", "big_bird_published")
    full_attention_every: int = _size(0, 512, 0)  # n for full attention in layers 0, n, 2n, ...; 0 for none
    window_size: int = _size(128, 1_048_576)
    window_sizes: tuple[int, ...] | None = None  # of each layer; None for window_size in all
    # Some tokens attend to all and are attended to by all, with projections of their own: the first token for
    # classification, else those before (qa) or after (choice) global_sep_token_id, or given ones (Longformer).
    global_attention: bool = False
    global_sep_token_id: int | None = None
    block_size: int = _size(64, 65_536)
    random_blocks: int = _size(3, 1_024, 0)
    attention_seed: int = 0
    contact_head: bool = False  # weights of a regression of contacts on attention maps, not used otherwise (ESM)
    norm: str = _one_of("post", "pre")  # after each addition, or before each sublayer and once at the end
    norm_kind: str = _one_of("layer", "rms")  # of the encoder and decoder; "rms": without mean and bias
    first_norm: bool = True  # whether a pre-norm network has a norm before the first attention
    # Scale initial weights of residual projections by 1 / sqrt(residual additions) (Radford et al. 2019, section 2.3).
    shrink_residuals: bool = False
    norm_bias: bool = True
    linear_bias: bool = True
    key_bias: bool = True  # whether, with qkv_bias, keys have one (DeBERTa 1: no)
    qkv_bias: bool = True  # whether, with linear_bias, the q, k, v projections have a bias (optional in BigBird)
    ffn_up_bias: bool = True  # whether, with linear_bias, the first projection of the feed-forward network has one
    scale_attention: bool = True  # divide scores by sqrt(head_dim)
    scale_attention_by_layer: bool = False  # also by the layer number, from 1
    upcast_attention: bool = False  # compute attention in float32 for half precision (GPT-2)
    gated: bool = False  # feed-forward network
    # Bottleneck adapters of several languages after the feed-forward network, of which those of `language` are used
    # (X-MOD), of size hidden_size / adapter_reduction; their norm: the layer's last one, their own, or none, before the
    # residual connection around them if adapter_norm_first.
    languages: tuple[str, ...] = ()
    language: str | None = None
    adapter_reduction: int = _size(2, 65_536)
    adapter_norm: str = _one_of("shared", "own", "none")
    adapter_norm_first: bool = True
    type_vocab_size: int = _size(2, 1_024, 0)  # number of segments; with 0 or 1, token types are ignored
    task_type_vocab_size: int = _size(0, 1_024, 0)  # rows of a table of training tasks; row 0 is used (ERNIE)
    layer_norm_eps: float = 1e-12
    initializer_range: float = 0.02
    pad_token_id: int | None = 0  # row of the embedding table without gradient from look-ups (except in GPT-2)
    # Tokens that a convolution after the first layer sees, with conv_groups groups (DeBERTa 2); 0 for none.
    conv_width: int = _size(0, 1_023, 0)
    conv_groups: int = _size(1, 65_536)
    conv_act: str = "tanh"
    pooler: bool = True  # whether the bare encoder has one
    idle_pooler: bool = False  # keep it with heads that do not use it (except spans)
    tie_word_embeddings: bool = True  # the masked-LM head shares the embedding table
    # Of that head's own table (RemBERT); None for the size of the embedding table.
    prediction_size: int | None = _size(None, 65_536)
    mlm_act: str | None = None  # of the masked-LM head; None for hidden_act
    mlm_dense: bool = True  # it has a dense layer and a norm; without, a bias only with linear_bias (EuroBERT)
    head_dense: bool = False  # token and sequence heads begin with dense, classifier_act and norm (ModernBERT)
    head_bias: bool = True  # of those dense layers and of the masked-LM head's
    # LM heads are only the decoder; sequence heads one linear layer without bias; no pooler (GPT-2).
    bare_heads: bool = False
    # Of sequence heads without a pooler; "late": the mean of the tokens after the dense layer.
    pooling: str = _one_of("first", "mean", "late")
    pair_objective: str = _one_of("nsp", "sop")  # second pre-training head: next sentence or sentence order
    # None to classify the pooled vector; else the activation of a dense layer on the first token, with dropout before
    # it if classifier_input_dropout. choice_act: the same for multiple choice.
    classifier_act: str | None = None
    classifier_dropout: float | None = _rate(None)  # before the last layer; None for hidden_dropout
    classifier_input_dropout: bool = True
    pooler_dropout: float | None = _rate(None)  # before the dense layer of both, if not the classifier's rate
    choice_act: str | None = None
    choice_dropout: float | None = _rate(None)  # None for the classifier's
    tagging_dropout: str = _one_of("classifier", "hidden")  # dropout rate of token heads
    span_dropout: float = _rate(0.0)  # before the span head
    span_ffn: bool = False  # it has a feed-forward network of its own
    # Excludes the tokens up to the first of these (the question) from answers; without token types they are segment 0,
    # all others segment 1 (BigBird).
    question_sep_token_id: int | None = None
    num_decoder_layers: int = _size(0, 512, 0)  # with causal self-attention and cross-attention; 0 for no decoder
    # Of a separate target vocabulary; None for a shared vocabulary and table.
    decoder_vocab_size: int | None = _size(None, 4_000_000)
    decoder_start_token_id: int | None = None  # first token of a target
    eos_token_id: int | None = None  # its last token
    # Ends a target that reaches its length limit, at no cost to its score (BART, Marian); None: such a target is cut.
    forced_eos_token_id: int | None = None
    # Cell of a recurrent network (models/recurrent.py), one of CELLS; None for a Transformer. Attention "causal" means
    # unidirectional, "full" bidirectional with half of hidden_size per direction.
    recurrent: str | None = None
    separate_directions: bool = False  # separate forward and backward stacks (ELMo)
    recurrent_residual: bool = False  # residual connections
    attention_score: str = _one_of("none", "dot", "bilinear", "mlp", "additive")  # of its decoder (nn/cross.py)
    input_feeding: bool = False  # the decoder's cells also get the attention context
    # Word embeddings from characters, with filters over 1 to character_width of them (nn/embeddings.py); 0 for none.
    character_width: int = _size(0, 64, 0)
    space_token_id: int = _size(5, 4_000_000, 0)  # separates words; higher ids are characters
    mix_layers: bool = False  # task heads get a learned mix of all layers instead of the last (models/heads.py)
    top_layers: int = _size(0, 64, 0)  # BiLSTM layers between encoder and task head
    top_embedding_size: int = _size(0, 65_536, 0)  # of additional token embeddings, trained with the task; 0 for none

    def __post_init__(self) -> None:
        for name in ("window_sizes", "languages"):
            if isinstance(getattr(self, name), list):
                object.__setattr__(self, name, tuple(getattr(self, name)))
        for one in fields(self):
            self._check_value(one.name, one.default, one.metadata)
        for name in ("layer_norm_eps", "initializer_range"):
            value = getattr(self, name)
            check(_is_number(value) and 0 < value <= 1, f"{name} is {value!r}; it must be above 0 and at most 1.")
        self._check_sizes()
        self._check_heads()
        self._check_positions()
        self._check_decoder()
        check_recurrent(self)
        check_attention_score(self)

    def _check_value(self, name: str, default: Any, limits: Any) -> None:
        """Checks one value by the kind of its field. limits: the metadata of the field."""
        value = getattr(self, name)
        if value is None and default is None:
            return
        if isinstance(default, bool):
            check(isinstance(value, bool), f"{name} is {value!r}; it must be true or false.")
        if "range" in limits:
            least, most = limits["range"]
            is_right = _is_count(value) and least <= value <= most
            check(is_right, f"{name} is {value!r}; it must be an integer from {least} to {most:,}.")
        if "rate" in limits:
            is_right = _is_number(value) and 0 <= value < 1
            check(is_right, f"{name} is {value!r}; it must be at least 0 and below 1.")
        if "choices" in limits:
            choices = limits["choices"]
            check(value in choices, f"{name} is {value!r}; it must be one of {', '.join(choices)}.")
        if name.endswith("_act"):
            from ..nn.layers import ACTIVATIONS

            is_right = isinstance(value, str) and value in ACTIVATIONS
            check(is_right, f"{name} {value!r} is not supported. Known: {', '.join(ACTIVATIONS)}.")

    def _check_sizes(self) -> None:
        pad = self.pad_token_id
        check(
            pad is None or (_is_count(pad) and 0 <= pad < self.vocab_size),
            f"pad_token_id is {pad!r}; it must be in the vocabulary of {self.vocab_size:,}, or None.",
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
        heads, keys = self.num_attention_heads, self.num_key_value_heads
        check(
            keys is None or heads % keys == 0,
            f"num_key_value_heads is {keys}; {heads} num_attention_heads must be a multiple of it.",
        )
        check(
            self.token_dropout_id is None or self.attention != "causal",
            "token_dropout_id counts tokens of whole texts, which does not work with causal attention: set it to null.",
        )
        self._check_groups()
        known = self.languages
        check(
            isinstance(known, tuple) and all(isinstance(one, str) and one and "." not in one for one in known),
            f"languages is {known!r}; it must be a list of names.",
        )
        check(
            self.language in known if known else self.language is None,
            f"language is {self.language!r}; it must be one of the languages: {', '.join(known) or 'none'} (set "
            "default_language in config.json).",
        )
        check(
            not known or self.adapter_reduction <= self.hidden_size,
            f"adapter_reduction is {self.adapter_reduction}; it must be at most hidden_size {self.hidden_size}.",
        )

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

    def _check_heads(self) -> None:
        if self.family not in registry.TABLE["family"]:  # entry points are slow, so only if needed
            registry.resolve("family", str(self.family))
        for name in ("question_sep_token_id", "token_dropout_id", "global_sep_token_id"):
            value = getattr(self, name)
            check(
                value is None or (_is_count(value) and value >= 0),
                f"{name} is {value!r}; it must be a token id, or None.",
            )
        check(not self.head_dense or self.classifier_act is not None, "head_dense needs an activation: classifier_act.")
        check(
            self.prediction_size is None or not self.tie_word_embeddings,
            "prediction_size is the size of a separate table: set tie_word_embeddings false.",
        )
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
        check_scaling(self.rotary_scaling)
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
        self._check_disentangled()
        check(
            self.attention != "causal" or not self.full_attention_every,
            "full_attention_every does not work with causal attention, which masks later tokens: set it to 0.",
        )
        sizes, (least, most) = self.window_sizes, RANGES["window_size"]
        check(
            sizes is None
            or (isinstance(sizes, tuple) and all(_is_count(size) and least <= size <= most for size in sizes)),
            f"window_sizes is {sizes!r}; it must be a list of integers from {least} to {most:,}.",
        )
        check(
            sizes is None or len(sizes) == self.num_hidden_layers,
            f"window_sizes has {len(sizes or ())} sizes; the {self.num_hidden_layers} layers need one each.",
        )
        for name, is_there in (
            (f"attention '{self.attention}'", self.attention != "window" or self.full_attention_every > 0),
            ("rotary or relative positions", self.positions == "rotary" or self.has_relative_positions),
            ("shared or scaled queries and keys", self.num_key_value_heads is not None or not self.scale_attention),
            ("upcast_attention", self.upcast_attention),
            ("a decoder", self.num_decoder_layers > 0),
        ):
            check(not (self.global_attention and is_there), f"global_attention does not support {name}.")
        check(
            _is_count(self.attention_seed) and abs(self.attention_seed) < 2**63,
            f"attention_seed is {self.attention_seed!r}; it must be an integer.",
        )

    def _check_disentangled(self) -> None:
        others, buckets = self.relative_buckets or self.positions.startswith("relative"), self.position_buckets
        check(
            self.position_attention == "none" or not others,
            "position_attention excludes relative_buckets and relative positions: use only one of them.",
        )
        check(
            buckets == 0 or 2 <= buckets < 2 * self.relative_distance - 3,
            f"position_buckets is {buckets}; it must be 0, or from 2 to less than twice relative_distance "
            f"{self.relative_distance}.",
        )
        is_grouped = self.num_key_value_heads is not None or self.attention_head_size is not None
        check(
            not is_grouped or (self.position_attention == "none" and self.key_bias),
            "position_attention and key_bias false exclude num_key_value_heads and attention_head_size: remove either.",
        )
        check(not self.project_first or self.embedding_size is not None, "project_first needs embedding_size.")
        width, groups = self.conv_width, self.conv_groups
        check(
            width == 0 or (width % 2 == 1 and self.hidden_size % groups == 0 and self.attention != "causal"),
            f"A convolution needs an odd conv_width, not {width}, conv_groups that divide hidden_size "
            f"{self.hidden_size}, and attention that is not causal.",
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
            ("position_attention", self.position_attention != "none"),
            ("key_bias false", not self.key_bias),
            ("conv_width", self.conv_width > 0),
            ("languages", bool(self.languages)),
            ("layers_per_group", self.layers_per_group > 1),
            ("scale_attention_by_layer", self.scale_attention_by_layer),
            ("scale_attention false", not self.scale_attention),
            ("qkv_bias false", not self.qkv_bias),
            ("num_key_value_heads", self.num_key_value_heads is not None),
            ("attention_head_size", self.attention_head_size is not None),
        ):
            check(not is_there, f"An encoder-decoder (num_decoder_layers) does not support {name}.")

    def check_length(self, max_length: int, name: str) -> None:
        """Raise InputError if the setting 'max_length' exceeds the positions of the model called `name`."""
        if max_length > self.max_position_embeddings:
            raise InputError(
                f"Setting 'max_length' is {max_length}; {name} has {self.max_position_embeddings} positions."
            )

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
    def position_terms(self) -> tuple[str, ...]:
        """The terms of disentangled attention."""
        return {"none": (), "both": ("c2p", "p2c")}.get(self.position_attention, (self.position_attention,))

    @property
    def has_relative_positions(self) -> bool:
        """Whether scores have terms of distances."""
        return bool(self.position_terms or self.relative_buckets) or self.positions.startswith("relative")

    @property
    def head_dim(self) -> int:
        """Size of one attention head."""
        return self.attention_head_size or self.hidden_size // self.num_attention_heads

    @property
    def attention_size(self) -> int:
        """Size of all attention heads together."""
        return self.num_attention_heads * self.head_dim

    @property
    def table_size(self) -> int:
        """Size of a token embedding."""
        return self.embedding_size or self.hidden_size

    @property
    def decoder_size(self) -> int:
        """Size of a token's vector in the masked-LM head."""
        return self.prediction_size or self.table_size

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


CHOICES: dict[str, tuple[str, ...]] = {
    one.name: one.metadata["choices"] for one in fields(ModelConfig) if "choices" in one.metadata
}
RANGES: dict[str, tuple[int, int]] = {
    one.name: one.metadata["range"] for one in fields(ModelConfig) if "range" in one.metadata
}


# Kinds of rotary scaling, with the settings that each needs and those that it may have.
SCALINGS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "linear": (("factor",), ()),
    "dynamic": (("factor",), ()),
    "yarn": (
        ("factor", "original_max_position_embeddings"),
        ("attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate"),
    ),
    "llama3": (("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"), ()),
}


def check_scaling(scaling: Any) -> None:
    """Validates `rotary_scaling`. Raises ConfigError."""
    if scaling is None:
        return
    check(isinstance(scaling, dict), f"rotary_scaling is {scaling!r}; it must be a table with a rope_type.")
    kind = scaling.get("rope_type")
    is_known = isinstance(kind, str) and kind in SCALINGS
    check(is_known, f"rope_type {kind!r} is not supported. Known: default, {', '.join(SCALINGS)}.")
    needed, optional = SCALINGS[kind]
    for name in needed:
        check(name in scaling, f"rope_type {kind} needs {name}.")
    for name, value in scaling.items():
        if name != "rope_type":
            check(name in (*needed, *optional), f"rope_type {kind} has no setting {name}.")
            is_right = isinstance(value, bool) if name == "truncate" else _is_number(value) and 0 < value < 1e9
            check(is_right, f"{name} of rope_type {kind} is {value!r}; it must be a number above 0.")
    if kind == "llama3":
        low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
        check(low < high, f"low_freq_factor {low} must be below high_freq_factor {high}.")


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
    check(config.recurrent in CELLS, f"recurrent is {config.recurrent!r}; it must be one of {', '.join(CELLS)}.")
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
        ("position_attention", config.position_attention != "none"),
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
