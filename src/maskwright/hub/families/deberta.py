"""DeBERTa (He et al. 2021) and its versions 2 and 3 (He et al. 2023): disentangled attention, no trained pooler."""

from __future__ import annotations

from typing import Any

from ...core.config import check
from ..family import Family, Rows, Values
from .bert import CLASSIFIER, ENCODER, NAMES, PREDICTIONS, SPAN, UNDERSTOOD
from .roberta import classes

_NAMES = NAMES | {
    "embedding_size": "embedding_size",
    "positions": "position_biased_input",
    "position_attention": "pos_att_type",
    "relative_distance": "max_relative_positions",
    "classifier_act": "pooler_hidden_act",
    "pooler_dropout": "pooler_dropout",
    "classifier_dropout": "cls_dropout",
}
_HINTS = {"_relative": "relative_attention", "_pooler_size": "pooler_hidden_size", "_legacy": "legacy"}
_KINDS = ("c2p", "p2c")
_DEFAULTS = {
    "positions": True,
    "position_attention": None,
    "relative_distance": -1,
    "embedding_size": None,
    "type_vocab_size": 0,
    "layer_norm_eps": 1e-7,
    "classifier_act": "gelu",
    "pooler_dropout": 0.0,
}
_FIXED = {"pooler": False, "classifier_input_dropout": False, "tagging_dropout": "hidden"}
_LAYER = "encoder.layer.{i}.attention.self."
_ENCODER = {name: theirs for name, theirs in ENCODER.items() if ".qkv." not in name and "pooler" not in name} | {
    "embeddings.project.{p}": ["embeddings.embed_proj.{p}"],
    "relative.weight": ["encoder.rel_embeddings.weight"],
}
_DENSE: Rows = {"dense.{p}": ["pooler.dense.{p}"], "classifier.{p}": ["classifier.{p}"]}
_HEADS: dict[str, Rows] = {
    "mlm": PREDICTIONS,
    "classification": _DENSE,
    "regression": _DENSE,
    "tagging": CLASSIFIER,
    "qa": SPAN,
}
# The head of `legacy` false computes the same where embeddings are not projected.
_RENAMED = {
    r"lm_predictions\.lm_head\.(dense|LayerNorm)\.(weight|bias)": r"cls.predictions.transform.\1.\2",
    r"lm_predictions\.lm_head\.bias": "cls.predictions.bias",
}


def _to_ours(ours: Values) -> Values:
    relative, pooler_size, legacy, head_size = (ours.pop(name, None) for name in (*_HINTS, "_head_size"))
    hidden, heads = ours.get("hidden_size"), ours.get("num_attention_heads")
    for name, size, wanted in (
        ("pooler_hidden_size", pooler_size, hidden),
        ("attention_head_size", head_size, hidden // heads if isinstance(hidden, int) and heads else None),
    ):
        check(size in (None, wanted), f"{name} is {size!r}; only {wanted} is supported, as hidden_size requires.")
    if ours["embedding_size"] in (None, hidden):
        ours["embedding_size"] = None
    for name in ("position_buckets", "conv_width"):
        ours[name] = max(value, 0) if isinstance(value := ours.get(name, 0), int) else value
    if isinstance(distance := ours["relative_distance"], int) and distance < 1:
        ours["relative_distance"] = ours.get("max_position_embeddings", 512)
    if legacy is False:
        check(ours["embedding_size"] is None, "legacy is false, which embedding_size excludes: remove one of them.")
        ours["tie_word_embeddings"] = True
    return ours | {
        "positions": "absolute" if ours["positions"] else "none",
        "position_attention": _terms(ours["position_attention"], relative or False),
        "position_norm": "layer_norm" in str(ours.get("position_norm")).lower() and bool(relative),
        "project_first": ours["embedding_size"] is not None,
        "choice_act": ours["classifier_act"],
    }


def _terms(stored: Any, relative: bool) -> str:
    """Returns `position_attention`."""
    kinds = [one.strip() for one in stored.lower().split("|")] if isinstance(stored, str) else stored or []
    check(
        isinstance(kinds, list) and len(set(map(str, kinds))) == len(kinds) and all(one in _KINDS for one in kinds),
        f"pos_att_type is {stored!r}; it must consist of {' and '.join(_KINDS)}.",
    )
    check(
        relative is bool(kinds),
        f"relative_attention is {relative!r} and pos_att_type {stored!r}; only both or neither are supported.",
    )
    return "both" if len(kinds) == len(_KINDS) else kinds[0] if kinds else "none"


def _to_theirs(theirs: Values) -> Values:
    terms, size = theirs["pos_att_type"], theirs.pop("embedding_size")
    theirs |= {
        "position_biased_input": theirs["position_biased_input"] == "absolute",
        "relative_attention": terms != "none",
        "pos_att_type": list(_KINDS) if terms == "both" else [terms] if terms != "none" else None,
        "pooler_hidden_size": theirs["hidden_size"],
    }
    if "norm_rel_ebd" in theirs:
        theirs["norm_rel_ebd"] = "layer_norm" if theirs["norm_rel_ebd"] else "none"
    return theirs | ({} if size is None else {"embedding_size": size})


_COMMON: dict[str, Any] = {
    "prefix": "deberta.",
    "nullable": ("pad_token_id", "classifier_dropout"),
    "renamed": _RENAMED,
    "adapt_in": _to_ours,
    "adapt_out": _to_theirs,
}


def family() -> Family:
    """DeBERTa 1: keys without bias, one vector per distance."""
    return Family(
        model_type="deberta",
        title="DeBERTa",
        classes={name: head for name, head in classes("Deberta").items() if head != "choice"},
        names=_NAMES,
        hints=_HINTS,
        defaults=_DEFAULTS | {"vocab_size": 50_265},
        fixed=_FIXED | {"key_bias": False},
        understood=UNDERSTOOD | {"talking_head": (False, None)},
        interleaved=("attention.qkv.weight",),
        encoder=_ENCODER
        | {
            "layers.{i}.attention.qkv.weight": [_LAYER + "in_proj.weight"],
            "layers.{i}.attention.qkv.bias": [_LAYER + "q_bias", _LAYER + "v_bias"],
            "layers.{i}.relative.key.{p}": [_LAYER + "pos_proj.{p}"],
            "layers.{i}.relative.query.{p}": [_LAYER + "pos_q_proj.{p}"],
        },
        heads=_HEADS,
        **_COMMON,
    )


def second_family() -> Family:
    """DeBERTa 2 and 3: logarithmic buckets, shared projections, a convolution."""
    return Family(
        model_type="deberta-v2",
        title="DeBERTa 2 and 3",
        classes=classes("DebertaV2"),
        names=_NAMES
        | {
            "position_buckets": "position_buckets",
            "position_norm": "norm_rel_ebd",
            "share_position_keys": "share_att_key",
            "conv_width": "conv_kernel_size",
            "conv_groups": "conv_groups",
            "conv_act": "conv_act",
        },
        hints=_HINTS | {"_head_size": "attention_head_size"},
        defaults=_DEFAULTS
        | {
            "vocab_size": 128_100,
            "hidden_size": 1_536,
            "num_hidden_layers": 24,
            "num_attention_heads": 24,
            "intermediate_size": 6_144,
        },
        fixed=_FIXED,
        understood=UNDERSTOOD,
        encoder=_ENCODER
        | {
            "relative.norm.{p}": ["encoder.LayerNorm.{p}"],
            "layers.{i}.attention.qkv.{p}": [f"{_LAYER}{part}_proj.{{p}}" for part in ("query", "key", "value")],
            "layers.{i}.relative.key.{p}": [_LAYER + "pos_key_proj.{p}"],
            "layers.{i}.relative.query.{p}": [_LAYER + "pos_query_proj.{p}"],
            "convolution.{p}": ["encoder.conv.conv.{p}"],
            "convolution.norm.{p}": ["encoder.conv.LayerNorm.{p}"],
        },
        heads=_HEADS | {"choice": _DENSE},
        **_COMMON,
    )
