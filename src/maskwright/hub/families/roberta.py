"""RoBERTa (Liu et al. 2019), XLM-R (Conneau et al. 2020) and others of the same architecture.

Positions begin at the row after the padding token's, so 512 tokens need 514 rows. The sequence-classification head
has its own dense layer on the first token; the pooler is not pre-trained.
"""

from __future__ import annotations

from typing import Any

from ..family import Family, Values
from .bert import CLASSIFIER, ENCODER, NAMES, SPAN, UNDERSTOOD

DENSE_CLASSIFIER = {"dense.{p}": ["classifier.dense.{p}"], "classifier.{p}": ["classifier.out_proj.{p}"]}
PREDICTIONS = {
    "dense.{p}": ["lm_head.dense.{p}"],
    "norm.{p}": ["lm_head.layer_norm.{p}"],
    "bias": ["lm_head.bias"],
    "decoder": ["lm_head.decoder.weight"],
}
HEADS = {
    "mlm": PREDICTIONS,
    "classification": DENSE_CLASSIFIER,
    "regression": DENSE_CLASSIFIER,
    "tagging": CLASSIFIER,
    "qa": SPAN,
    "choice": CLASSIFIER,
}
FIXED: Values = {"positions": "offset", "mlm_act": "gelu", "classifier_act": "tanh"}


def classes(stem: str) -> dict[str, str | None]:
    """Returns transformers' class names of a family pre-trained without sentence pairs."""
    return {
        f"{stem}Model": None,
        f"{stem}ForMaskedLM": "mlm",
        f"{stem}ForSequenceClassification": "classification",
        f"{stem}ForTokenClassification": "tagging",
        f"{stem}ForQuestionAnswering": "qa",
        f"{stem}ForMultipleChoice": "choice",
    }


def without_offset(ours: Values) -> Values:
    """Convert the position count: theirs includes the rows before the first token, ours is the maximum length."""
    rows, pad = ours.get("max_position_embeddings"), ours.get("pad_token_id")
    if isinstance(rows, int) and isinstance(pad, int):
        ours["max_position_embeddings"] = rows - pad - 1
    return ours


def with_offset(theirs: Values) -> Values:
    """Inverse of `without_offset`."""
    theirs["max_position_embeddings"] += theirs["pad_token_id"] + 1
    return theirs


def _family(
    model_type: str, title: str, stem: str, prefix: str = "roberta.", vocab_size: int = 30_522, **changes: Any
) -> Family:
    settings: Values = {
        "defaults": {"vocab_size": vocab_size, "pad_token_id": 1},
        "fixed": FIXED,
        "nullable": ("pad_token_id", "classifier_dropout"),
        "understood": UNDERSTOOD,
        "adapt_in": without_offset,
        "adapt_out": with_offset,
        "encoder": ENCODER,
        "heads": HEADS,
    }
    return Family(model_type, title, prefix, classes(stem), NAMES, **settings | changes)


def family() -> Family:
    """RoBERTa."""
    return _family("roberta", "RoBERTa", "Roberta", vocab_size=50_265)


def xlm_family() -> Family:
    """XLM-R."""
    return _family("xlm-roberta", "XLM-R", "XLMRoberta")


def camembert_family() -> Family:
    """CamemBERT (Martin et al. 2020): RoBERTa with a French vocabulary."""
    return _family("camembert", "CamemBERT", "Camembert")


def data2vec_family() -> Family:
    """data2vec for text (Baevski et al. 2022): RoBERTa trained on vectors instead of tokens."""
    return _family("data2vec-text", "data2vec-text", "Data2VecText", "data2vec_text.")


def prelayernorm_family() -> Family:
    """RoBERTa with norms before each sublayer, as fairseq trains with --encoder-normalize-before (Ott et al. 2019)."""
    norms = {
        "layers.{i}.attention_norm.{p}": ["encoder.layer.{i}.attention.LayerNorm.{p}"],
        "layers.{i}.ffn_norm.{p}": ["encoder.layer.{i}.intermediate.LayerNorm.{p}"],
        "final_norm.{p}": ["LayerNorm.{p}"],
    }
    return _family(
        "roberta-prelayernorm",
        "RoBERTa-PreLayerNorm",
        "RobertaPreLayerNorm",
        "roberta_prelayernorm.",
        50_265,
        fixed=FIXED | {"norm": "pre"},
        encoder=ENCODER | norms,
    )
