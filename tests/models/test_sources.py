"""The sources of queries, keys and values are found in a network."""

from __future__ import annotations

import pytest

from maskwright.lessons.parts import ACROSS, MASKED, SELF, attention_sources
from maskwright.models.build import build
from maskwright.models.config import ModelConfig

SIZES = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 32}


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_queries_keys_and_values_come_from_where_the_paper_says(norm: str):
    config = ModelConfig(
        vocab_size=20,
        **SIZES,
        num_decoder_layers=2,
        type_vocab_size=0,
        pooler=False,
        decoder_start_token_id=0,
        norm=norm,
    )
    found = {one.kind: one for one in attention_sources(build(config, "seq2seq"), [4, 5, 6], [1, 7])}
    assert {kind: (one.query, one.key, one.value, one.hides_later) for kind, one in found.items()} == {
        SELF: ("source", "source", "source", False),
        MASKED: ("target", "target", "target", True),
        ACROSS: ("target", "source", "source", False),
    }
