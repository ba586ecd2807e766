"""MPNet (Song et al. 2020): RoBERTa's positions, no segments, and a relative-position bias by distance bucket."""

from __future__ import annotations

from ...models.config import NUM_BUCKETS
from ..family import Family, Values
from .bert import NAMES, TABLES, UNDERSTOOD
from .roberta import FIXED, HEADS, classes, without_offset

_PAD = 1  # padding row of the published model, regardless of config.json
_NOT_HELD = ("type_vocab_size", "classifier_dropout", "pad_token_id")


def _with_offset(theirs: Values) -> Values:
    theirs["max_position_embeddings"] += _PAD + 1
    return theirs | {"pad_token_id": _PAD}


def family() -> Family:
    """Returns the MPNet family. Rows of the bias table after the 32 buckets in use are kept."""
    encoder = {name: theirs for name, theirs in TABLES.items() if "token_type" not in name}
    return Family(
        model_type="mpnet",
        title="MPNet",
        prefix="mpnet.",
        classes=classes("MPNet"),
        names={name: theirs for name, theirs in NAMES.items() if name not in _NOT_HELD}
        | {"relative_buckets": "relative_attention_num_buckets"},
        defaults={"vocab_size": 30_527, "relative_buckets": NUM_BUCKETS},
        fixed={**FIXED, "type_vocab_size": 0, "pad_token_id": _PAD},
        understood=UNDERSTOOD | {"pad_token_id": (_PAD,)},
        adapt_in=without_offset,
        adapt_out=_with_offset,
        encoder=encoder
        | {
            "relative.weight": ["encoder.relative_attention_bias.weight"],
            "layers.{i}.attention.qkv.{p}": [f"encoder.layer.{{i}}.attention.attn.{part}.{{p}}" for part in "qkv"],
            "layers.{i}.attention.out.{p}": ["encoder.layer.{i}.attention.attn.o.{p}"],
            "layers.{i}.attention_norm.{p}": ["encoder.layer.{i}.attention.LayerNorm.{p}"],
            "layers.{i}.ffn.up.{p}": ["encoder.layer.{i}.intermediate.dense.{p}"],
            "layers.{i}.ffn.down.{p}": ["encoder.layer.{i}.output.dense.{p}"],
            "layers.{i}.ffn_norm.{p}": ["encoder.layer.{i}.output.LayerNorm.{p}"],
            "pooler.{p}": ["pooler.dense.{p}"],
        },
        heads=HEADS,
    )
