"""RoFormer (Su et al. 2021): BERT with rotary positions of neighboring dimensions, and no pooler."""

from __future__ import annotations

from typing import Any

from ...models.config import ModelConfig
from ..family import Family, Values
from .bert import CLASSIFIER, ENCODER, NAMES, PREDICTIONS, SPAN, UNDERSTOOD
from .electra import with_size, without_equal_size
from .roberta import DENSE_CLASSIFIER, classes

_NOT_HELD = ("pooler.{p}", "embeddings.position.weight")


def _to_ours(ours: Values) -> Values:
    act = ours.get("hidden_act", "gelu")
    return without_equal_size(ours) | {"classifier_act": act, "choice_act": act}


def _constants(config: ModelConfig) -> dict[str, Any]:
    from ...nn.positions import sinusoidal_positions

    rows, size = config.max_position_embeddings, config.head_dim
    return {"encoder.embed_positions.weight": sinusoidal_positions(rows, size, in_halves=True)}


def family() -> Family:
    """Returns the RoFormer family.

    Multiple choice is skipped: transformers scores the vector of the last column, which is padding in shorter rows.
    """
    held = classes("RoFormer")
    del held["RoFormerForMultipleChoice"]
    return Family(
        model_type="roformer",
        title="RoFormer",
        prefix="roformer.",
        classes=held,
        names={ours: theirs for ours, theirs in NAMES.items() if ours != "classifier_dropout"}
        | {"embedding_size": "embedding_size", "rotary_values": "rotary_value"},
        defaults={"vocab_size": 50_000, "max_position_embeddings": 1_536},
        fixed={"positions": "rotary", "rotary_pairs": "neighbors", "pooler": False},
        understood=UNDERSTOOD,
        buffers=r"encoder\.embed_positions\.weight",
        constants=_constants,
        adapt_in=_to_ours,
        adapt_out=with_size,
        encoder={ours: theirs for ours, theirs in ENCODER.items() if ours not in _NOT_HELD}
        | {"embeddings.project.{p}": ["embeddings_project.{p}"]},
        heads={
            "mlm": PREDICTIONS,
            "classification": DENSE_CLASSIFIER,
            "regression": DENSE_CLASSIFIER,
            "tagging": CLASSIFIER,
            "qa": SPAN,
        },
    )
