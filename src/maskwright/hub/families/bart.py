"""BART (Lewis et al. 2020): encoder-decoder with learned positions and a layer norm after the embeddings."""

from __future__ import annotations

from ...core.config import check
from ..family import Family, Values
from . import marian


def _tables(side: str) -> dict[str, list[str]]:
    return {
        "embeddings.position.weight": [f"{side}.embed_positions.weight"],
        "embeddings.norm.{p}": [f"{side}.layernorm_embedding.{{p}}"],
    }


def _to_ours(ours: Values) -> Values:
    pad = ours.get("pad_token_id", 1)
    check(pad == 1, f"pad_token_id is {pad!r}; BART's positions begin in row 2, after padding token 1.")
    return marian.same_sides(ours)


def family() -> Family:
    """Returns the BART family: sequence-to-sequence with one shared vocabulary."""
    return Family(
        model_type="bart",
        title="BART",
        prefix="model.",
        classes={"BartModel": None, "BartForConditionalGeneration": "seq2seq"},
        names=marian.NAMES,
        hints=marian.HINTS,
        aliases=marian.ALIASES,
        defaults=marian.DEFAULTS
        | {
            "vocab_size": 50_265,
            "pad_token_id": 1,
            "decoder_start_token_id": 2,
            "eos_token_id": 2,
            "forced_eos_token_id": 2,
        },
        fixed=marian.FIXED | {"positions": "offset", "decoder_vocab_size": None},
        nullable=marian.NULLABLE,
        understood=marian.UNDERSTOOD | {"normalize_embedding": (True, None)},
        decoder_rows=_tables("decoder") | marian.DECODER,
        decoder_embeddings="encoder.embed_tokens.weight",
        rows=("head.bias",),
        adapt_in=_to_ours,
        adapt_out=marian.both_sides,
        encoder=_tables("encoder") | marian.ENCODER,
        heads=marian.HEADS,
    )
