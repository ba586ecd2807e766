"""How published checkpoints name our tensors: one table, used in both directions.

A row gives our name and theirs; `{i}` stands for a layer, `{p}` for weight or bias. Several names on their side are
parts of one tensor of ours, joined along its first axis. Their names stand here without the family prefix.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

PREFIX = "bert."

_ENCODER = {
    "embeddings.word.weight": ["embeddings.word_embeddings.weight"],
    "embeddings.position.weight": ["embeddings.position_embeddings.weight"],
    "embeddings.token_type.weight": ["embeddings.token_type_embeddings.weight"],
    "embeddings.norm.{p}": ["embeddings.LayerNorm.{p}"],
    "layers.{i}.attention.qkv.{p}": [
        "encoder.layer.{i}.attention.self.query.{p}",
        "encoder.layer.{i}.attention.self.key.{p}",
        "encoder.layer.{i}.attention.self.value.{p}",
    ],
    "layers.{i}.attention.out.{p}": ["encoder.layer.{i}.attention.output.dense.{p}"],
    "layers.{i}.attention_norm.{p}": ["encoder.layer.{i}.attention.output.LayerNorm.{p}"],
    "layers.{i}.ffn.up.{p}": ["encoder.layer.{i}.intermediate.dense.{p}"],
    "layers.{i}.ffn.down.{p}": ["encoder.layer.{i}.output.dense.{p}"],
    "layers.{i}.ffn_norm.{p}": ["encoder.layer.{i}.output.LayerNorm.{p}"],
    "pooler.{p}": ["pooler.dense.{p}"],
}
_PREDICTIONS = {
    "dense.{p}": ["cls.predictions.transform.dense.{p}"],
    "norm.{p}": ["cls.predictions.transform.LayerNorm.{p}"],
    "bias": ["cls.predictions.bias"],
    "decoder": ["cls.predictions.decoder.weight"],
}
_RELATIONSHIP = {"classifier.{p}": ["cls.seq_relationship.{p}"]}
_CLASSIFIER = {"classifier.{p}": ["classifier.{p}"]}

HEADS: dict[str | None, dict[str, list[str]]] = {
    None: {},
    "mlm": _PREDICTIONS,
    "nsp": _RELATIONSHIP,
    "pretraining": {
        **{f"predictions.{ours}": theirs for ours, theirs in _PREDICTIONS.items()},
        **{f"seq_relationship.{ours}": theirs for ours, theirs in _RELATIONSHIP.items()},
    },
    "classification": _CLASSIFIER,
    "regression": _CLASSIFIER,
}

# transformers' classes and the head that each has; regression is a classification class with one output.
ARCHITECTURES: dict[str, str | None] = {
    "BertModel": None,
    "BertForPreTraining": "pretraining",
    "BertForMaskedLM": "mlm",
    "BertForNextSentencePrediction": "nsp",
    "BertForSequenceClassification": "classification",
}

# Buffers that some releases stored: they hold 0, 1, 2, ... or zeros, and no weights.
BUFFERS = {"embeddings.position_ids", "embeddings.token_type_ids"}

WORDS, DECODER_WEIGHT, DECODER_BIAS, MLM_BIAS = (
    "embeddings.word_embeddings.weight",
    "cls.predictions.decoder.weight",
    "cls.predictions.decoder.bias",
    "cls.predictions.bias",
)


def their_names(ours: str, head: str | None) -> list[str]:
    """Names, without prefix, of the tensors that make up our parameter `ours` in a model with `head`."""
    for pattern, theirs in _rules(head):
        found = pattern.fullmatch(ours)
        if found:
            return [name.format(**found.groupdict()) for name in theirs]
    raise AssertionError(f"the key table has no row for {ours} under head {head}")


def with_prefix(name: str, head: str | None) -> str:
    """The name as transformers stores it: a bare model has no prefix, and heads have none."""
    is_head = name.startswith(("cls.", "classifier."))
    return name if head is None or is_head else PREFIX + name


def canonical(stored: str) -> str:
    """A stored name without prefix and in today's spelling (LayerNorm.gamma and .beta are weight and bias)."""
    name = stored.removeprefix(PREFIX)
    if name.endswith("LayerNorm.gamma"):
        return name.removesuffix("gamma") + "weight"
    if name.endswith("LayerNorm.beta"):
        return name.removesuffix("beta") + "bias"
    return name


def guess_architecture(names: Iterable[str]) -> str:
    """The class that a checkpoint without `architectures` holds, by its canonical names."""
    names = set(names)
    masked = any(name.startswith("cls.predictions.") for name in names)
    relationship = any(name.startswith("cls.seq_relationship.") for name in names)
    if masked and relationship:
        return "BertForPreTraining"
    if masked or relationship:
        return "BertForMaskedLM" if masked else "BertForNextSentencePrediction"
    return "BertForSequenceClassification" if "classifier.weight" in names else "BertModel"


@cache
def _rules(head: str | None) -> list[tuple[re.Pattern[str], list[str]]]:
    """The rows for a model with `head`, our side as a pattern."""
    rows = {f"encoder.{ours}": theirs for ours, theirs in _ENCODER.items()}
    rows |= {f"head.{ours}": theirs for ours, theirs in HEADS[head].items()}
    return [(_pattern(ours), theirs) for ours, theirs in rows.items()]


def _pattern(ours: str) -> re.Pattern[str]:
    escaped = re.escape(ours).replace(r"\{i\}", r"(?P<i>\d+)").replace(r"\{p\}", r"(?P<p>weight|bias)")
    return re.compile(escaped)
