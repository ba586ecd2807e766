"""Validation of the recurrent settings of `models/config.py`; config: a ModelConfig."""

from __future__ import annotations

from typing import Any

from ..core.config import check
from .config_tables import RECURRENT_CELLS


def check_recurrent(config: Any) -> None:
    """Validates recurrent settings and those between encoder and head. Raises ConfigError."""
    check(
        not config.top_layers or config.hidden_size % 2 == 0,
        f"top_layers are bidirectional, each direction with half of hidden_size {config.hidden_size}: make it even.",
    )
    is_read = config.top_layers > 0 or not config.top_embedding_size
    check(is_read, "top_embedding_size is used by top_layers only: set them too.")
    check(
        not (config.has_top and config.num_decoder_layers),
        "mix_layers and top_layers do not work in an encoder-decoder: remove them.",
    )
    if config.recurrent is None:
        check(
            not (config.separate_directions or config.recurrent_residual or config.character_width),
            "separate_directions, recurrent_residual and character_width need a recurrent network: use a preset "
            "such as elmo-small, or set recurrent.",
        )
        return
    known = ", ".join(RECURRENT_CELLS)
    check(config.recurrent in RECURRENT_CELLS, f"recurrent is {config.recurrent!r}; it must be one of {known}.")
    check(
        (config.attention == "causal" and not config.separate_directions)
        or (config.attention == "full" and config.hidden_size % 2 == 0),
        "A recurrent network is unidirectional (attention 'causal') or bidirectional, separate or not (attention "
        f"'full' and an even hidden_size), not '{config.attention}' with hidden_size {config.hidden_size}.",
    )
    check(config.num_hidden_layers > 0, "A recurrent network needs at least one layer: increase num_hidden_layers.")
    heads_need_pooler = not config.bare_heads and not (config.classifier_act and config.choice_act)
    for name, is_there in (
        (f"positions '{config.positions}'", config.positions != "none"),
        ("relative_buckets", config.relative_buckets > 0),
        ("num_hidden_groups", config.num_hidden_groups is not None),
        ("character_width and num_decoder_layers", config.character_width > 0 and config.num_decoder_layers > 0),
        ("a pooler, which heads without classifier_act, choice_act or bare_heads need", heads_need_pooler),
        ("a pooler", config.pooler or config.idle_pooler),
        ("a character_width above its hidden_size", config.character_width > config.hidden_size),
    ):
        check(not is_there, f"A recurrent network does not support {name}.")


def check_attention_score(config: Any) -> None:
    """Validates the attention of a recurrent decoder. Raises ConfigError."""
    attends = config.attention_score != "none"
    check(
        not (attends or config.input_feeding) or (config.recurrent is not None and config.num_decoder_layers > 0),
        "attention_score and input_feeding need a recurrent encoder-decoder: use a preset such as seq2seq-small, or "
        "set recurrent and num_decoder_layers.",
    )
    check(attends or not config.input_feeding, "input_feeding needs attention: set attention_score too.")
