"""A model of another kind is rejected with one short error, which names the commands that fit."""

from __future__ import annotations

from maskwright.inference.ready import kind_of
from maskwright.models.build import build
from maskwright.models.presets import preset


def test_a_causal_model_is_of_the_kind_of_the_task_that_it_was_trained_for():
    config = preset("gpt2", vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2)
    model = build(config, "clm")
    assert kind_of(model).can("predict-next")
    model.task_name = "generation"
    assert kind_of(model).name == "generation" and not kind_of(model).can("predict-next")
