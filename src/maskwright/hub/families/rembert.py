"""RemBERT (Chung et al. 2021): BERT with small input embeddings and a larger, separate table for predictions."""

from __future__ import annotations

from ..family import Family
from .bert import CLASSIFIER, ENCODER, NAMES, SPAN, UNDERSTOOD
from .roberta import classes


def family() -> Family:
    """Returns the RemBERT family."""
    return Family(
        model_type="rembert",
        title="RemBERT",
        prefix="rembert.",
        classes=classes("RemBert"),
        names={ours: theirs for ours, theirs in NAMES.items() if ours != "tie_word_embeddings"}
        | {
            "embedding_size": "input_embedding_size",
            "prediction_size": "output_embedding_size",
            "classifier_dropout": "classifier_dropout_prob",
        },
        defaults={
            "vocab_size": 250_300,
            "embedding_size": 256,
            "prediction_size": 1_664,
            "hidden_size": 1_152,
            "num_hidden_layers": 32,
            "num_attention_heads": 18,
            "intermediate_size": 4_608,
            "hidden_dropout": 0.0,
            "attention_dropout": 0.0,
            "classifier_dropout": 0.1,
        },
        fixed={"tie_word_embeddings": False},
        understood=UNDERSTOOD,
        encoder=ENCODER | {"embeddings.project.{p}": ["encoder.embedding_hidden_mapping_in.{p}"]},
        heads={
            "mlm": {
                "dense.{p}": ["cls.predictions.dense.{p}"],
                "norm.{p}": ["cls.predictions.LayerNorm.{p}"],
                "bias": ["cls.predictions.decoder.bias"],
                "decoder": ["cls.predictions.decoder.weight"],
            },
            "classification": CLASSIFIER,
            "regression": CLASSIFIER,
            "tagging": CLASSIFIER,
            "qa": SPAN,
            "choice": CLASSIFIER,
        },
    )
