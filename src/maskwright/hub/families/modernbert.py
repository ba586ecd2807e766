"""ModernBERT (Warner et al. 2024): rotary positions, alternating sliding-window and full attention, GLU, pre-norm."""

from __future__ import annotations

from typing import Any

from ...core.config import check
from ..family import Family, Values
from .roberta import classes

_DENSE = {"dense.{p}": ["head.dense.{p}"], "norm.{p}": ["head.norm.{p}"]}
_CLASSIFIER = {"classifier.{p}": ["classifier.{p}"]}
_TOKENS = {f"dense.{ours}": theirs for ours, theirs in _DENSE.items()} | _CLASSIFIER
_NAMES = {
    "vocab_size": "vocab_size",
    "hidden_size": "hidden_size",
    "num_hidden_layers": "num_hidden_layers",
    "num_attention_heads": "num_attention_heads",
    "intermediate_size": "intermediate_size",
    "hidden_act": "hidden_activation",
    "hidden_dropout": "embedding_dropout",
    "attention_dropout": "attention_dropout",
    "ffn_dropout": "mlp_dropout",
    "classifier_dropout": "classifier_dropout",
    "max_position_embeddings": "max_position_embeddings",
    "window_size": "local_attention",
    "layer_norm_eps": "norm_eps",
    "norm_bias": "norm_bias",
    "linear_bias": "attention_bias",
    "head_bias": "classifier_bias",
    "classifier_act": "classifier_activation",
    "pooling": "classifier_pooling",
    "initializer_range": "initializer_range",
    "pad_token_id": "pad_token_id",
    "tie_word_embeddings": "tie_word_embeddings",
    "full_attention_every": "global_attn_every_n_layers",
    "rotary_theta": "global_rope_theta",
    "rotary_local_theta": "local_rope_theta",
}
_HINTS = {
    "layer_types": "layer_types",
    "rope_parameters": "rope_parameters",
    "mlp_bias": "mlp_bias",
    "_sliding_window": "sliding_window",
}
_KINDS = ("full_attention", "sliding_attention")
_POOLINGS = {"cls": "first", "mean": "mean"}


def _to_ours(ours: Values) -> Values:
    """Newer files list every layer's attention type and both RoPE settings; older ones have a period and two thetas."""
    kinds, rope, ffn_bias, to_each_side = (ours.pop(name, None) for name in _HINTS)
    if to_each_side is not None:  # takes precedence if a file has both
        check(isinstance(to_each_side, int), f"sliding_window is {to_each_side!r}; it must be an integer.")
        ours["window_size"] = 2 * to_each_side
    step = ours["full_attention_every"]
    known = isinstance(step, int) and step > 0 and isinstance(kinds, list) and kinds == _pattern(len(kinds), step)
    if kinds is not None and not known:
        ours["full_attention_every"] = _step(kinds)
    for field, kind in zip(("rotary_theta", "rotary_local_theta"), _KINDS, strict=True):
        ours[field] = _theta(rope, kind, ours[field])
    check(
        (ffn_bias or False) == ours["linear_bias"],
        "mlp_bias and attention_bias differ, which is not supported: set both to true, or both to false.",
    )
    pooling = ours["pooling"]
    check(
        isinstance(pooling, str) and pooling in _POOLINGS, f"classifier_pooling is {pooling!r}; it must be cls or mean."
    )
    act = ours["classifier_act"]
    return ours | {
        "pooling": _POOLINGS[pooling],
        "mlm_act": act,
        "choice_act": act,
        "span_dropout": ours["classifier_dropout"],
    }


def _pattern(layers: int, step: int) -> list[str]:
    """Returns the attention type of each layer."""
    return [_KINDS[bool(index % step)] for index in range(layers)]


def _step(kinds: Any) -> int:
    """Returns n if layers 0, n, 2n, ... use full attention and all others a sliding window."""
    check(
        isinstance(kinds, list) and 0 < len(kinds) <= 512 and all(kind in _KINDS for kind in kinds),
        f"layer_types must contain {' or '.join(_KINDS)} for each layer.",
    )
    full = [index for index, kind in enumerate(kinds) if kind == _KINDS[0]]
    step = full[1] if len(full) > 1 else len(kinds)
    check(
        full == list(range(0, len(kinds), step)),
        "layer_types has full attention in layers "
        f"{', '.join(map(str, full)) or '(none)'}: only every n-th layer, starting with the first, is supported.",
    )
    return step


def _theta(rope: Any, kind: str, default: float) -> Any:
    """Returns the RoPE theta of one layer type."""
    values = rope.get(kind) if isinstance(rope, dict) else None
    if values is None:
        return default
    check(
        isinstance(values, dict) and values.get("rope_type", "default") == "default",
        f"rope_parameters of {kind} are {values!r}; only rope_type 'default' is supported.",
    )
    return values.get("rope_theta", default)


def _to_theirs(theirs: Values) -> Values:
    step, layers = theirs["global_attn_every_n_layers"] or 1, theirs["num_hidden_layers"]
    thetas = (theirs["global_rope_theta"], theirs["local_rope_theta"])
    return theirs | {
        "classifier_pooling": next(name for name, ours in _POOLINGS.items() if ours == theirs["classifier_pooling"]),
        "layer_types": _pattern(layers, step),
        "rope_parameters": {
            kind: {"rope_type": "default", "rope_theta": theta} for kind, theta in zip(_KINDS, thetas, strict=True)
        },
        "mlp_bias": theirs["attention_bias"],
    }


def family() -> Family:
    """Returns the ModernBERT family. The first layer has no norm before attention, and no head has a pooler."""
    return Family(
        model_type="modernbert",
        title="ModernBERT",
        prefix="model.",
        classes=classes("ModernBert"),
        names=_NAMES,
        hints=_HINTS,
        defaults={
            "vocab_size": 50_368,
            "num_hidden_layers": 22,
            "intermediate_size": 1_152,
            "hidden_dropout": 0.0,
            "attention_dropout": 0.0,
            "classifier_dropout": 0.0,
            "max_position_embeddings": 8_192,
            "rotary_theta": 160_000.0,
            "rotary_local_theta": 10_000.0,
            "full_attention_every": 3,
            "layer_norm_eps": 1e-5,
            "norm_bias": False,
            "linear_bias": False,
            "head_bias": False,
            "classifier_act": "gelu",
            "pooling": "cls",
            "pad_token_id": 50_283,
        },
        fixed={
            "type_vocab_size": 0,
            "positions": "rotary",
            "attention": "window",
            "norm": "pre",
            "first_norm": False,
            "gated": True,
            "residual_dropout": "inner",
            "pooler": False,
            "head_dense": True,
            "classifier_input_dropout": False,
        },
        understood={
            "rope_scaling": (None,),
            "quantization_config": (None,),
        },
        head_understood={"mlm": {"decoder_bias": (True, None)}},
        adapt_in=_to_ours,
        adapt_out=_to_theirs,
        encoder={
            "embeddings.word.weight": ["embeddings.tok_embeddings.weight"],
            "embeddings.norm.{p}": ["embeddings.norm.{p}"],
            "layers.{i}.attention.qkv.{p}": ["layers.{i}.attn.Wqkv.{p}"],
            "layers.{i}.attention.out.{p}": ["layers.{i}.attn.Wo.{p}"],
            "layers.{i}.attention_norm.{p}": ["layers.{i}.attn_norm.{p}"],
            "layers.{i}.ffn.up.{p}": ["layers.{i}.mlp.Wi.{p}"],
            "layers.{i}.ffn.down.{p}": ["layers.{i}.mlp.Wo.{p}"],
            "layers.{i}.ffn_norm.{p}": ["layers.{i}.mlp_norm.{p}"],
            "final_norm.{p}": ["final_norm.{p}"],
        },
        heads={
            "mlm": _DENSE | {"bias": ["decoder.bias"], "decoder": ["decoder.weight"]},
            "classification": _DENSE | _CLASSIFIER,
            "regression": _DENSE | _CLASSIFIER,
            "tagging": _TOKENS,
            "qa": _TOKENS,
            "choice": _DENSE | _CLASSIFIER,
        },
    )
