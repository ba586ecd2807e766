"""ELECTRA (Clark et al. 2020): generator and discriminator, with optional factorized embeddings."""

from __future__ import annotations

from ...core.progress import warn
from ..family import Family, Values
from .bert import CLASSIFIER, ENCODER, NAMES, SPAN, UNDERSTOOD
from .roberta import DENSE_CLASSIFIER, classes

_ENCODER = {name: theirs for name, theirs in ENCODER.items() if not name.startswith("pooler")}


def without_equal_size(ours: Values) -> Values:
    """Embeddings of hidden size have no projection."""
    if ours.get("embedding_size") == ours.get("hidden_size", 768):
        ours["embedding_size"] = None
    return ours


def with_size(theirs: Values) -> Values:
    """Inverse of `without_equal_size`."""
    return theirs | {"embedding_size": theirs["embedding_size"] or theirs["hidden_size"]}


def _to_ours(ours: Values) -> Values:
    """A summary without activation is linear."""
    ours = without_equal_size(ours)
    ours["choice_act"] = ours["choice_act"] or "linear"
    rate = ours.pop("_first_dropout", None)
    if rate:
        warn(
            f"summary_first_dropout is {rate}, which is not supported: fine-tuning a multiple-choice head uses no "
            "dropout there, and a saved config.json omits it."
        )
    return ours


def family() -> Family:
    """Returns the ELECTRA family. The generator has the head `mlm`, the discriminator `rtd`."""
    return Family(
        model_type="electra",
        title="ELECTRA",
        prefix="electra.",
        classes=classes("Electra") | {"ElectraForPreTraining": "rtd"},
        names=NAMES
        | {
            "embedding_size": "embedding_size",
            "choice_act": "summary_activation",
            "choice_dropout": "summary_last_dropout",
        },
        defaults={
            "embedding_size": 128,
            "hidden_size": 256,
            "num_attention_heads": 4,
            "intermediate_size": 1_024,
            "choice_act": "gelu",
            "choice_dropout": 0.1,
        },
        fixed={"pooler": False, "mlm_act": "gelu", "classifier_act": "gelu"},
        nullable=("pad_token_id", "classifier_dropout", "choice_act"),
        hints={"_first_dropout": "summary_first_dropout"},
        understood=UNDERSTOOD,
        head_understood={
            "choice": {
                "summary_type": ("first", None),
                "summary_use_proj": (True, None),
                "summary_proj_to_labels": (False, None),
            }
        },
        adapt_in=_to_ours,
        adapt_out=with_size,
        encoder=_ENCODER | {"embeddings.project.{p}": ["embeddings_project.{p}"]},
        heads={
            "mlm": {
                "dense.{p}": ["generator_predictions.dense.{p}"],
                "norm.{p}": ["generator_predictions.LayerNorm.{p}"],
                "bias": ["generator_lm_head.bias"],
                "decoder": ["generator_lm_head.weight"],
            },
            "rtd": {
                "dense.{p}": ["discriminator_predictions.dense.{p}"],
                "classifier.{p}": ["discriminator_predictions.dense_prediction.{p}"],
            },
            "classification": DENSE_CLASSIFIER,
            "regression": DENSE_CLASSIFIER,
            "tagging": CLASSIFIER,
            "qa": SPAN,
            "choice": {"dense.{p}": ["sequence_summary.summary.{p}"], "classifier.{p}": ["classifier.{p}"]},
        },
    )
