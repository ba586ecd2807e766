"""Allowed values of the model configuration, used by `models/config.py`."""

from __future__ import annotations

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
