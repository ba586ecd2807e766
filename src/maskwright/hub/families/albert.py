"""ALBERT (Lan et al. 2020): factorized embeddings, layers with shared parameters, sentence-order prediction."""

from __future__ import annotations

from ...core.config import check
from ...models.config import RANGES
from ..family import Family, Values, under
from .bert import CLASSIFIER, NAMES, SPAN, TABLES, UNDERSTOOD
from .roberta import classes

_LAYER = "encoder.albert_layer_groups.{i}.albert_layers.{k}."
_PREDICTIONS = {
    "dense.{p}": ["predictions.dense.{p}"],
    "norm.{p}": ["predictions.LayerNorm.{p}"],
    "bias": ["predictions.bias"],
    "decoder": ["predictions.decoder.weight"],
}
_ORDER = {"classifier.{p}": ["sop_classifier.classifier.{p}"]}


def _to_ours(ours: Values) -> Values:
    """Convert the layer count: theirs counts layer groups as executed."""
    runs, inner = ours.get("num_hidden_layers", 12), ours["layers_per_group"]
    least, most = RANGES["layers_per_group"]
    is_count = isinstance(inner, int) and not isinstance(inner, bool) and least <= inner <= most
    check(is_count, f"inner_group_num is {inner!r}; it must be an integer from {least} to {most}.")
    if isinstance(runs, int):
        ours["num_hidden_layers"] = runs * inner
    return ours


def _to_theirs(theirs: Values) -> Values:
    return theirs | {"num_hidden_layers": theirs["num_hidden_layers"] // theirs["inner_group_num"]}


def family() -> Family:
    """Returns the ALBERT family. `{i}` is a layer group, `{k}` a layer in the group."""
    return Family(
        model_type="albert",
        title="ALBERT",
        prefix="albert.",
        classes=classes("Albert") | {"AlbertForPreTraining": "pretraining"},
        names=NAMES
        | {
            "embedding_size": "embedding_size",
            "num_hidden_groups": "num_hidden_groups",
            "layers_per_group": "inner_group_num",
            "classifier_dropout": "classifier_dropout_prob",
        },
        defaults={
            "vocab_size": 30_000,
            "embedding_size": 128,
            "hidden_size": 4_096,
            "num_hidden_groups": 1,
            "layers_per_group": 1,
            "num_attention_heads": 64,
            "intermediate_size": 16_384,
            "hidden_act": "gelu_new",
            "hidden_dropout": 0.0,
            "attention_dropout": 0.0,
            "classifier_dropout": 0.1,
        },
        fixed={"residual_dropout": "attention", "pair_objective": "sop"},
        understood=UNDERSTOOD,
        adapt_in=_to_ours,
        adapt_out=_to_theirs,
        encoder=TABLES
        | {
            "embeddings.project.{p}": ["encoder.embedding_hidden_mapping_in.{p}"],
            "layers.{i}.attention.qkv.{p}": [f"{_LAYER}attention.{part}.{{p}}" for part in ("query", "key", "value")],
            "layers.{i}.attention.out.{p}": [_LAYER + "attention.dense.{p}"],
            "layers.{i}.attention_norm.{p}": [_LAYER + "attention.LayerNorm.{p}"],
            "layers.{i}.ffn.up.{p}": [_LAYER + "ffn.{p}"],
            "layers.{i}.ffn.down.{p}": [_LAYER + "ffn_output.{p}"],
            "layers.{i}.ffn_norm.{p}": [_LAYER + "full_layer_layer_norm.{p}"],
            "pooler.{p}": ["pooler.{p}"],
        },
        heads={
            "mlm": _PREDICTIONS,
            "pretraining": under("predictions", _PREDICTIONS) | under("seq_relationship", _ORDER),
            "classification": CLASSIFIER,
            "regression": CLASSIFIER,
            "tagging": CLASSIFIER,
            "qa": SPAN,
            "choice": CLASSIFIER,
        },
    )
