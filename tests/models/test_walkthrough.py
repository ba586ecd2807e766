"""The five steps of attention are those of the model, and the sources of queries, keys and values are found."""

from __future__ import annotations

from itertools import islice

import pytest
import torch

from maskwright.core.errors import InputError
from maskwright.data.batch import Batch
from maskwright.models.config import ModelConfig
from maskwright.models.model import build
from maskwright.models.sources import ACROSS, MASKED, SELF, attention_sources
from maskwright.models.walkthrough import attention_steps

SIZES = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 32}
IDS = [2, 5, 7, 11, 3]


@pytest.mark.parametrize("layer", [1, 3])
@pytest.mark.parametrize("switches", [{}, {"norm": "pre"}, {"attention": "causal"}, {"num_hidden_groups": 1}])
def test_the_steps_end_where_the_layer_does(layer: int, switches: dict):
    model = build(ModelConfig(vocab_size=20, **SIZES, **switches), seed=1).eval()
    steps = attention_steps(model, IDS, layer)
    encoded = model.encode(Batch.from_sequences([IDS]), hidden_states=True, attentions=True)
    assert torch.equal(steps[0].tensor, encoded.hidden_states[layer - 1])
    assert torch.allclose(steps[2].tensor, encoded.attentions[layer - 1][0], atol=1e-6)
    depth = next(islice(model.encoder.in_order, layer - 1, None))
    hidden = depth.add(steps[0].tensor, steps[-1].tensor)
    expected = encoded.hidden_states[layer]
    if layer == 3 and switches.get("norm") == "pre":
        hidden = model.encoder.finish(hidden)
    assert torch.allclose(hidden, expected, atol=1e-5)
    assert [step.size for step in steps] == ["5 x 16", "3 x 4 x 5 x 4", "4 x 5 x 5", "4 x 5 x 4", "5 x 16"]


def test_layers_that_are_not_there_and_other_rules_are_refused():
    model = build(ModelConfig(vocab_size=20, **SIZES))
    for layer in (0, 4):
        with pytest.raises(InputError, match="1 to 3"):
            attention_steps(model, IDS, layer)
    for switches in ({"positions": "relative_key"}, {"attention": "window"}, {"positions": "rotary"}):
        with pytest.raises(InputError, match="plain attention"):
            attention_steps(build(ModelConfig(vocab_size=20, **SIZES, **switches)), IDS)


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
