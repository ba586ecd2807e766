"""Longformer (Beltagy et al. 2020): RoBERTa with a sliding window per layer, and tokens with global attention."""

from __future__ import annotations

from ...core.config import check
from ..family import Family, Values
from .bert import ENCODER, NAMES, UNDERSTOOD
from .roberta import FIXED, HEADS, classes, with_offset, without_offset


def _to_ours(ours: Values) -> Values:
    """One size for all layers, or one per layer."""
    given = ours.pop("window_size", 512)
    sizes = given if isinstance(given, list) else [given]
    check(
        bool(sizes) and all(isinstance(one, int) and one > 0 and one % 2 == 0 for one in sizes),
        f"attention_window is {given!r}; it must be a positive even number, or a list of one for each layer.",
    )
    if isinstance(given, list) and (len(set(sizes)) > 1 or len(sizes) != ours.get("num_hidden_layers", 12)):
        return without_offset(ours) | {"window_sizes": tuple(sizes)}
    return without_offset(ours) | {"window_size": sizes[0]}


def _to_theirs(theirs: Values) -> Values:
    sizes = theirs.pop("window_sizes")
    return with_offset(theirs) | ({} if sizes is None else {"attention_window": list(sizes)})


def family() -> Family:
    """Returns the Longformer family."""
    return Family(
        model_type="longformer",
        title="Longformer",
        prefix="longformer.",
        classes=classes("Longformer"),
        names={ours: theirs for ours, theirs in NAMES.items() if ours != "classifier_dropout"}
        | {
            "window_size": "attention_window",
            "window_sizes": "window_sizes",
            "global_sep_token_id": "sep_token_id",
        },
        defaults={"pad_token_id": 1, "global_sep_token_id": 2},
        nullable=("pad_token_id", "global_sep_token_id"),
        fixed=FIXED | {"attention": "window", "global_attention": True},
        understood=UNDERSTOOD,
        adapt_in=_to_ours,
        adapt_out=_to_theirs,
        encoder=ENCODER
        | {
            "layers.{i}.attention.global_qkv.{p}": [
                f"encoder.layer.{{i}}.attention.self.{part}_global.{{p}}" for part in ("query", "key", "value")
            ]
        },
        heads=HEADS,
    )
