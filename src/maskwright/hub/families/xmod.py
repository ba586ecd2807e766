"""X-MOD (Pfeiffer et al. 2022): XLM-R with an adapter of the text's language in each layer."""

from __future__ import annotations

from ...core.config import check
from ..family import Family, Values
from .bert import ENCODER, NAMES, UNDERSTOOD
from .roberta import FIXED, HEADS, classes, with_offset, without_offset

_OUTPUT = "encoder.layer.{i}.output."


def _to_ours(ours: Values) -> Values:
    """The language is the default one, or the only one; norms of the adapters from two switches."""
    known = ours.get("languages", ("en_XX",))
    check(isinstance(known, list | tuple) and bool(known), f"languages is {known!r}; it must be a list of names.")
    own, shared = ours.pop("_own_norm", False), ours.pop("_shared_norm", True)
    return without_offset(ours) | {
        "languages": tuple(known),
        "language": ours.get("language") or (known[0] if len(known) == 1 else None),
        "norm": "pre" if ours["norm"] is True else "post",
        "adapter_norm": "own" if own else "shared" if shared else "none",
    }


def _to_theirs(theirs: Values) -> Values:
    kind = theirs.pop("adapter_norm")
    return with_offset(theirs) | {
        "languages": list(theirs["languages"]) or ["en_XX"],
        "pre_norm": theirs["pre_norm"] == "pre",
        "adapter_layer_norm": kind == "own",
        "adapter_reuse_layer_norm": kind != "none",
    }


def family() -> Family:
    """Returns the X-MOD family. The adapters of all languages are kept."""
    return Family(
        model_type="xmod",
        title="X-MOD",
        prefix="roberta.",
        classes=classes("Xmod"),
        names=NAMES
        | {
            "norm": "pre_norm",
            "languages": "languages",
            "language": "default_language",
            "adapter_reduction": "adapter_reduction_factor",
            "adapter_norm": "adapter_norm",
            "adapter_norm_first": "ln_before_adapter",
        },
        hints={"_own_norm": "adapter_layer_norm", "_shared_norm": "adapter_reuse_layer_norm"},
        defaults={"pad_token_id": 1, "norm": False},
        fixed=FIXED,
        nullable=("pad_token_id", "classifier_dropout"),
        understood=UNDERSTOOD,
        adapt_in=_to_ours,
        adapt_out=_to_theirs,
        encoder=ENCODER
        | {
            "layers.{i}.adapter_norm.{p}": [_OUTPUT + "adapter_layer_norm.{p}"],
            "layers.{i}.adapters.{l}.up.{p}": [_OUTPUT + "adapter_modules.{l}.dense1.{p}"],
            "layers.{i}.adapters.{l}.down.{p}": [_OUTPUT + "adapter_modules.{l}.dense2.{p}"],
            "final_norm.{p}": ["encoder.LayerNorm.{p}"],
        },
        heads=HEADS,
    )
