"""ALBERT (Lan et al. 2020): narrow tables, layers that share their weights, sentence order for next sentence."""

from __future__ import annotations

from ..family import Family, under
from .bert import CLASSIFIER, NAMES, SPAN, TABLES, UNDERSTOOD
from .roberta import classes

_LAYER = "encoder.albert_layer_groups.{i}.albert_layers.0."
_PREDICTIONS = {
    "dense.{p}": ["predictions.dense.{p}"],
    "norm.{p}": ["predictions.LayerNorm.{p}"],
    "bias": ["predictions.bias"],
    "decoder": ["predictions.decoder.weight"],
}
_ORDER = {"classifier.{p}": ["sop_classifier.classifier.{p}"]}


def family() -> Family:
    """ALBERT. `{i}` is a group of layers."""
    return Family(
        model_type="albert",
        title="ALBERT",
        prefix="albert.",
        classes=classes("Albert") | {"AlbertForPreTraining": "pretraining"},
        names=NAMES
        | {
            "embedding_size": "embedding_size",
            "num_hidden_groups": "num_hidden_groups",
            "classifier_dropout": "classifier_dropout_prob",
        },
        defaults={
            "vocab_size": 30_000,
            "embedding_size": 128,
            "hidden_size": 4_096,
            "num_hidden_groups": 1,
            "num_attention_heads": 64,
            "intermediate_size": 16_384,
            "hidden_act": "gelu_new",
            "hidden_dropout": 0.0,
            "attention_dropout": 0.0,
            "classifier_dropout": 0.1,
        },
        fixed={"residual_dropout": "attention", "pair_objective": "sop"},
        understood=UNDERSTOOD | {"inner_group_num": (1, None)},
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
