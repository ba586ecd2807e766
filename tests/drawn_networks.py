"""Small networks of every combination of switches, drawn by hypothesis."""

from hypothesis import strategies as st

from maskwright.models.config import CHOICES, ModelConfig

SIZES = {
    "vocab_size": 40,
    "hidden_size": 12,
    "num_attention_heads": 2,
    "intermediate_size": 10,
    "max_position_embeddings": 16,
    "initializer_range": 0.4,
    "relative_distance": 3,
    "window_size": 4,
    "block_size": 2,
    "random_blocks": 1,
}
act = st.sampled_from([None, "tanh", "relu", "linear"])


def possible(**switches):
    """Return the configuration, without unsupported combinations."""
    if switches["positions"].startswith("relative"):
        switches["relative_buckets"] = 0
    if switches["position_attention"] != "none":
        switches["relative_buckets"] = 0
        if switches["positions"].startswith("relative"):
            switches["positions"] = "none"
    if switches["position_attention"] != "none" or not switches["key_bias"]:
        switches["num_key_value_heads"] = switches["attention_head_size"] = None
    if switches["attention"] == "causal":
        switches["full_attention_every"] = switches["conv_width"] = 0
    if switches["bare_heads"]:
        switches |= {"pooler": False, "idle_pooler": False, "classifier_act": None, "choice_act": None}
    if switches["bare_heads"] or not switches["mlm_dense"]:
        switches["embedding_size"] = None
    switches["project_first"] &= switches["embedding_size"] is not None
    if switches["num_hidden_groups"] is None:
        switches["layers_per_group"] = 1
    else:
        switches["scale_attention_by_layer"] = False
        switches["num_hidden_layers"] *= switches["layers_per_group"]
    switches["head_dense"] &= switches["classifier_act"] is not None
    return ModelConfig(**SIZES, **switches)


configs = st.builds(
    possible,
    num_hidden_layers=st.integers(2, 4),
    embedding_size=st.sampled_from([None, 6, 12]),
    num_hidden_groups=st.sampled_from([None, 1, 2]),
    layers_per_group=st.integers(1, 2),
    type_vocab_size=st.integers(0, 3),
    relative_buckets=st.sampled_from([0, 32, 36]),
    position_buckets=st.sampled_from([0, 2]),
    position_norm=st.booleans(),
    share_position_keys=st.booleans(),
    key_bias=st.booleans(),
    conv_width=st.sampled_from([0, 3, 5]),
    conv_groups=st.sampled_from([1, 3]),
    project_first=st.booleans(),
    pad_token_id=st.integers(0, 5),
    pooler=st.booleans(),
    tie_word_embeddings=st.booleans(),
    idle_pooler=st.booleans(),
    classifier_input_dropout=st.booleans(),
    scale_embeddings=st.booleans(),
    first_norm=st.booleans(),
    norm_bias=st.booleans(),
    linear_bias=st.booleans(),
    qkv_bias=st.booleans(),
    scale_attention=st.booleans(),
    scale_attention_by_layer=st.booleans(),
    upcast_attention=st.booleans(),
    gated=st.booleans(),
    head_dense=st.booleans(),
    head_bias=st.booleans(),
    bare_heads=st.booleans(),
    embedding_norm=st.booleans(),
    shrink_residuals=st.booleans(),
    span_ffn=st.booleans(),
    num_key_value_heads=st.sampled_from([None, 1]),
    attention_head_size=st.sampled_from([None, 4]),
    ffn_up_bias=st.booleans(),
    mlm_dense=st.booleans(),
    rotary_scaling=st.sampled_from(
        [
            None,
            {"rope_type": "linear", "factor": 2.0},
            {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 9},
        ]
    ),
    rotary_local_theta=st.sampled_from([None, 50.0]),
    full_attention_every=st.integers(0, 2),
    mlm_act=act,
    classifier_act=act,
    choice_act=act,
    **{
        name: st.sampled_from(known) for name, known in CHOICES.items() if name != "attention_score"
    },  # of recurrent ones
)
