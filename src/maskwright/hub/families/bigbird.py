"""BigBird (Zaheer et al. 2020): BERT with block-sparse attention as in transformers, or with full attention."""

from __future__ import annotations

from ...core.config import check
from ..family import Family, Values, under
from .bert import CLASSIFIER, ENCODER, NAMES, PREDICTIONS, RELATIONSHIP, UNDERSTOOD
from .roberta import DENSE_CLASSIFIER, classes

_ATTENTION = {"block_sparse": "big_bird_published", "original_full": "full"}


def _to_ours(ours: Values) -> Values:
    kind = ours["attention"]
    check(
        isinstance(kind, str) and kind in _ATTENTION,
        f"attention_type is {kind!r}; it must be {' or '.join(_ATTENTION)}.",
    )
    return ours | {"attention": _ATTENTION[kind], "classifier_act": ours.get("hidden_act")}


def _to_theirs(theirs: Values) -> Values:
    kind = theirs["attention_type"]
    return theirs | {
        "attention_type": next((name for name, ours in _ATTENTION.items() if ours == kind), "original_full")
    }


def family() -> Family:
    """Returns the BigBird family. All heads except the span head keep the pooler, even if they do not use it."""
    return Family(
        model_type="big_bird",
        title="BigBird",
        prefix="bert.",
        classes=classes("BigBird") | {"BigBirdForPreTraining": "pretraining"},
        names=NAMES
        | {
            "attention": "attention_type",
            "block_size": "block_size",
            "random_blocks": "num_random_blocks",
            "scale_embeddings": "rescale_embeddings",
            "qkv_bias": "use_bias",
            "question_sep_token_id": "sep_token_id",
        },
        defaults={
            "vocab_size": 50_358,
            "hidden_act": "gelu_new",
            "max_position_embeddings": 4_096,
            "attention": "block_sparse",
            "question_sep_token_id": 66,
        },
        fixed={"embedding_dropout": "before", "idle_pooler": True, "span_ffn": True},
        nullable=("pad_token_id", "classifier_dropout"),
        understood=UNDERSTOOD,
        adapt_in=_to_ours,
        adapt_out=_to_theirs,
        encoder=ENCODER | {"pooler.{p}": ["pooler.{p}"]},
        heads={
            "mlm": PREDICTIONS,
            "pretraining": under("predictions", PREDICTIONS) | under("seq_relationship", RELATIONSHIP),
            "classification": DENSE_CLASSIFIER,
            "regression": DENSE_CLASSIFIER,
            "tagging": CLASSIFIER,
            "qa": {
                "ffn.up.{p}": ["qa_classifier.intermediate.dense.{p}"],
                "ffn.down.{p}": ["qa_classifier.output.dense.{p}"],
                "ffn_norm.{p}": ["qa_classifier.output.LayerNorm.{p}"],
                "classifier.{p}": ["qa_classifier.qa_outputs.{p}"],
            },
            "choice": CLASSIFIER,
        },
    )
