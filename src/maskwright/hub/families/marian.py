"""Marian (Junczys-Dowmunt et al. 2018): the original Transformer as in the OPUS-MT translation models."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.config import check
from ...core.progress import warn
from ..family import Family, Values

NAMES = {
    "vocab_size": "vocab_size",
    "hidden_size": "d_model",
    "num_hidden_layers": "encoder_layers",
    "num_decoder_layers": "decoder_layers",
    "num_attention_heads": "encoder_attention_heads",
    "intermediate_size": "encoder_ffn_dim",
    "hidden_act": "activation_function",
    "hidden_dropout": "dropout",
    "attention_dropout": "attention_dropout",
    "ffn_dropout": "activation_dropout",
    "scale_embeddings": "scale_embedding",
    "max_position_embeddings": "max_position_embeddings",
    "initializer_range": "init_std",
    "pad_token_id": "pad_token_id",
    "decoder_start_token_id": "decoder_start_token_id",
    "eos_token_id": "eos_token_id",
    "forced_eos_token_id": "forced_eos_token_id",
}
_LAYERDROPS = ("encoder_layerdrop", "decoder_layerdrop")
HINTS = {"_heads": "decoder_attention_heads", "_inner": "decoder_ffn_dim", **{name: name for name in _LAYERDROPS}}
ALIASES = {name: name for name in ("hidden_size", "num_hidden_layers", "num_attention_heads")}
DEFAULTS = {
    "num_hidden_layers": 12,
    "num_decoder_layers": 12,
    "hidden_size": 1_024,
    "num_attention_heads": 16,
    "intermediate_size": 4_096,
    "hidden_act": "gelu",
    "attention_dropout": 0.0,
    "scale_embeddings": False,
    "max_position_embeddings": 1_024,
}
FIXED = {"tie_word_embeddings": True, "type_vocab_size": 0, "layer_norm_eps": 1e-5, "pooler": False}
NULLABLE = ("pad_token_id", "decoder_start_token_id", "eos_token_id", "forced_eos_token_id", "decoder_vocab_size")
UNDERSTOOD: dict[str, Sequence[object]] = {
    "is_encoder_decoder": (True, None),
    "tie_word_embeddings": (True, None),
    "normalize_before": (False, None),
    "add_final_layer_norm": (False, None),
    "quantization_config": (None,),
}


def attention_rows(ours: str, theirs: str) -> dict[str, list[str]]:
    """Returns the self-attention rows of a layer."""
    return {
        f"{ours}.qkv.{{p}}": [f"{theirs}.{name}_proj.{{p}}" for name in ("q", "k", "v")],
        f"{ours}.out.{{p}}": [f"{theirs}.out_proj.{{p}}"],
    }


def layer_rows(side: str) -> dict[str, list[str]]:
    """Returns the layer rows of the encoder or decoder, selected by `side`."""
    own = f"{side}.layers.{{i}}"
    return {
        **attention_rows("layers.{i}.attention", f"{own}.self_attn"),
        "layers.{i}.attention_norm.{p}": [f"{own}.self_attn_layer_norm.{{p}}"],
        "layers.{i}.ffn.up.{p}": [f"{own}.fc1.{{p}}"],
        "layers.{i}.ffn.down.{p}": [f"{own}.fc2.{{p}}"],
        "layers.{i}.ffn_norm.{p}": [f"{own}.final_layer_norm.{{p}}"],
    }


CROSS = {
    "layers.{i}.cross.query.{p}": ["decoder.layers.{i}.encoder_attn.q_proj.{p}"],
    "layers.{i}.cross.key_value.{p}": [f"decoder.layers.{{i}}.encoder_attn.{name}_proj.{{p}}" for name in ("k", "v")],
    "layers.{i}.cross.out.{p}": ["decoder.layers.{i}.encoder_attn.out_proj.{p}"],
    "layers.{i}.cross_norm.{p}": ["decoder.layers.{i}.encoder_attn_layer_norm.{p}"],
}
ENCODER = {"embeddings.word.weight": ["shared.weight"], **layer_rows("encoder")}
DECODER = {"embeddings.word.weight": ["decoder.embed_tokens.weight"], **layer_rows("decoder"), **CROSS}
HEADS = {"seq2seq": {"bias": ["final_logits_bias"], "decoder": ["lm_head.weight"]}}


def same_sides(ours: Values) -> Values:
    """Reject a decoder whose layer sizes differ from the encoder's; warn if LayerDrop is set."""
    for name in _LAYERDROPS:
        rate = ours.pop(name, None)
        if rate:
            warn(f"{name} is {rate}: training does not support LayerDrop, and a saved config.json omits it.")
    for hint, name in (("_heads", "num_attention_heads"), ("_inner", "intermediate_size")):
        value, own = ours.pop(hint, None), ours.get(name, DEFAULTS[name])
        check(
            value is None or value == own,
            f"{name} is {own} in the encoder and {value} in the decoder; both must be the same.",
        )
    return ours


def both_sides(theirs: Values) -> Values:
    """Add the decoder's sizes. An unknown start token is omitted."""
    both = {"decoder_attention_heads": theirs["encoder_attention_heads"], "decoder_ffn_dim": theirs["encoder_ffn_dim"]}
    known = {name: value for name, value in theirs.items() if name != "decoder_start_token_id" or value is not None}
    return {**known, **both, "is_encoder_decoder": True}


def _to_ours(ours: Values) -> Values:
    if ours.pop("_shares", True) is not False:
        ours["decoder_vocab_size"] = None
    return same_sides(ours)


def _to_theirs(theirs: Values) -> Values:
    shares = theirs["decoder_vocab_size"] is None
    vocab = theirs["vocab_size"] if shares else theirs["decoder_vocab_size"]
    return both_sides({**theirs, "decoder_vocab_size": vocab, "share_encoder_decoder_embeddings": shares})


def family() -> Family:
    """Returns the Marian family: post-norm, sine before cosine positions, one or two vocabularies; no other head."""
    return Family(
        model_type="marian",
        title="Marian",
        prefix="model.",
        classes={"MarianModel": None, "MarianMTModel": "seq2seq"},
        names=NAMES | {"decoder_vocab_size": "decoder_vocab_size"},
        hints=HINTS | {"_shares": "share_encoder_decoder_embeddings"},
        aliases=ALIASES,
        defaults=DEFAULTS | {"vocab_size": 58_101, "pad_token_id": 58_100, "forced_eos_token_id": 0},
        fixed=FIXED | {"positions": "sinusoidal_halves", "embedding_norm": False},
        nullable=NULLABLE,
        understood=UNDERSTOOD | {"normalize_embedding": (False, None)},
        buffers=r"(encoder|decoder)\.embed_positions\.weight",
        decoder_rows=DECODER,
        decoder_embeddings="encoder.embed_tokens.weight",
        rows=("head.bias",),
        adapt_in=_to_ours,
        adapt_out=_to_theirs,
        encoder=ENCODER,
        heads=HEADS,
    )
