"""DistilBERT (Sanh et al. 2019): half-depth BERT without segment embeddings and pooler, with its own tensor names."""

from __future__ import annotations

from ..family import Family
from .bert import CLASSIFIER, NAMES, SPAN, TABLES, UNDERSTOOD
from .roberta import classes

_NOT_HELD = ("type_vocab_size", "layer_norm_eps")
_OWN_NAMES = {
    "hidden_size": "dim",
    "num_hidden_layers": "n_layers",
    "num_attention_heads": "n_heads",
    "intermediate_size": "hidden_dim",
    "hidden_act": "activation",
    "hidden_dropout": "dropout",
    "attention_dropout": "attention_dropout",
    "classifier_dropout": "seq_classif_dropout",
    "span_dropout": "qa_dropout",
}
_ENCODER = {name: theirs for name, theirs in TABLES.items() if "token_type" not in name} | {
    "layers.{i}.attention.qkv.{p}": [f"transformer.layer.{{i}}.attention.{part}_lin.{{p}}" for part in "qkv"],
    "layers.{i}.attention.out.{p}": ["transformer.layer.{i}.attention.out_lin.{p}"],
    "layers.{i}.attention_norm.{p}": ["transformer.layer.{i}.sa_layer_norm.{p}"],
    "layers.{i}.ffn.up.{p}": ["transformer.layer.{i}.ffn.lin1.{p}"],
    "layers.{i}.ffn.down.{p}": ["transformer.layer.{i}.ffn.lin2.{p}"],
    "layers.{i}.ffn_norm.{p}": ["transformer.layer.{i}.output_layer_norm.{p}"],
}
_DENSE = {"dense.{p}": ["pre_classifier.{p}"], "classifier.{p}": ["classifier.{p}"]}


def family() -> Family:
    """Returns the DistilBERT family. A stored sinusoidal position table loads as an ordinary embedding table."""
    return Family(
        model_type="distilbert",
        title="DistilBERT",
        prefix="distilbert.",
        classes=classes("DistilBert"),
        names={name: theirs for name, theirs in NAMES.items() if name not in _NOT_HELD} | _OWN_NAMES,
        defaults={"num_hidden_layers": 6, "classifier_dropout": 0.2, "span_dropout": 0.1},
        fixed={
            "type_vocab_size": 0,
            "pooler": False,
            "residual_dropout": "ffn",
            "classifier_act": "relu",
            "classifier_input_dropout": False,
            "choice_act": "relu",
            "tagging_dropout": "hidden",
        },
        aliases={name: name for name in ("hidden_size", "num_hidden_layers", "num_attention_heads")},
        understood=UNDERSTOOD,
        encoder=_ENCODER,
        heads={
            "mlm": {
                "dense.{p}": ["vocab_transform.{p}"],
                "norm.{p}": ["vocab_layer_norm.{p}"],
                "bias": ["vocab_projector.bias"],
                "decoder": ["vocab_projector.weight"],
            },
            "classification": _DENSE,
            "regression": _DENSE,
            "tagging": CLASSIFIER,
            "qa": SPAN,
            "choice": _DENSE,
        },
    )
