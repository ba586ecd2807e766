"""ESM-1b and ESM-2, models of proteins (Rives et al. 2021, Lin et al. 2022): pre-norm, learned or rotary positions."""

from __future__ import annotations

from typing import Any

from ...core.config import check
from ...models.config import ModelConfig
from ..family import Family, Values
from .bert import CLASSIFIER, ENCODER, NAMES, TABLES, UNDERSTOOD
from .roberta import DENSE_CLASSIFIER, PREDICTIONS, with_offset, without_offset

_NOT_HELD = ("hidden_act", "type_vocab_size", "classifier_dropout")
_POSITIONS = {"absolute": "offset", "rotary": "rotary"}
_TABLES = {ours: theirs for ours, theirs in TABLES.items() if ours.endswith(".weight") and "token_type" not in ours}


def _to_ours(ours: Values) -> Values:
    """Rotary positions have no rows before the first token; token dropout is that of a mask token."""
    kind = ours["positions"]
    check(
        isinstance(kind, str) and kind in _POSITIONS,
        f"position_embedding_type is {kind!r}; it must be {' or '.join(_POSITIONS)}.",
    )
    ours["positions"] = _POSITIONS[kind]
    if not ours.pop("_token_dropout", False):
        ours["token_dropout_id"] = None
    return without_offset(ours) if ours["positions"] == "offset" else ours


def _to_theirs(theirs: Values) -> Values:
    positions, mask = theirs["position_embedding_type"], theirs.pop("mask_token_id")
    theirs["position_embedding_type"] = next(
        (name for name, ours in _POSITIONS.items() if ours == positions), positions
    )
    theirs |= {"token_dropout": mask is not None} | ({} if mask is None else {"mask_token_id": mask})
    return with_offset(theirs) if positions == "offset" else theirs


def _constants(config: ModelConfig) -> dict[str, Any]:
    from ...nn.positions import rotary_frequencies

    if config.positions != "rotary":
        return {}
    frequencies = rotary_frequencies(config.head_dim, config.rotary_theta, in_float16=config.rotary_float16)
    return {"rotary_embeddings.inv_freq": frequencies}


def family() -> Family:
    """Returns the ESM family. The regression of contacts on attention maps is kept with the encoder's weights."""
    return Family(
        model_type="esm",
        title="ESM",
        prefix="esm.",
        classes={
            "EsmModel": None,
            "EsmForMaskedLM": "mlm",
            "EsmForSequenceClassification": "classification",
            "EsmForTokenClassification": "tagging",
        },
        names={ours: theirs for ours, theirs in NAMES.items() if ours not in _NOT_HELD}
        | {
            "positions": "position_embedding_type",
            "rotary_theta": "rope_theta",
            "embedding_norm": "emb_layer_norm_before",
            "token_dropout_id": "mask_token_id",
            "rotary_float16": "rotary_float16",
        },
        hints={"_token_dropout": "token_dropout"},
        defaults={
            "vocab_size": 33,
            "pad_token_id": 1,
            "max_position_embeddings": 1_026,
            "positions": "absolute",
            "embedding_norm": False,
            "token_dropout_id": None,
        },
        fixed={
            "type_vocab_size": 0,
            "norm": "pre",
            "contact_head": True,
            "embedding_dropout": "none",
            "mlm_act": "gelu",
            "classifier_act": "tanh",
            "choice_act": "tanh",
        },
        understood={name: values for name, values in UNDERSTOOD.items() if name != "position_embedding_type"}
        | {"is_folding_model": (False, None)},
        buffers=r"(encoder\.layer\.(\d+|\*)\.attention\.self\.)?rotary_embeddings\.inv_freq",
        constants=_constants,
        decoder_bias=False,
        adapt_in=_to_ours,
        adapt_out=_to_theirs,
        encoder=_TABLES
        | {
            "embeddings.norm.{p}": ["embeddings.layer_norm.{p}"],
            **{ours: theirs for ours, theirs in ENCODER.items() if ours not in TABLES},
            "layers.{i}.attention_norm.{p}": ["encoder.layer.{i}.attention.LayerNorm.{p}"],
            "layers.{i}.ffn_norm.{p}": ["encoder.layer.{i}.LayerNorm.{p}"],
            "contacts.{p}": ["contact_head.regression.{p}"],
            "final_norm.{p}": ["encoder.emb_layer_norm_after.{p}"],
        },
        heads={
            "mlm": PREDICTIONS,
            "classification": DENSE_CLASSIFIER,
            "regression": DENSE_CLASSIFIER,
            "tagging": CLASSIFIER,
        },
    )
