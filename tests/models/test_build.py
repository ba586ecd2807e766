"""Initial weights: as published, a function of the seed, blind to the global generator."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from maskwright.core.errors import ConfigError, InputError
from maskwright.models.build import build
from maskwright.models.config import ModelConfig
from maskwright.nn.layers import LayerNorm

CONFIG = ModelConfig(vocab_size=500, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128)


def test_matrices_are_truncated_normal_biases_zero_norms_one_and_zero():
    model = build(CONFIG, "pretraining")
    for name, part in model.named_modules():
        for field, value in part.named_parameters(recurse=False):
            if isinstance(part, LayerNorm):
                assert (value == (1.0 if field == "weight" else 0.0)).all(), name
            elif value.ndim == 1:
                assert not value.any(), name
            else:
                # A normal of deviation 0.02 cut at two deviations has deviation 0.02 * 0.8796.
                assert float(value.detach().abs().max()) <= 0.04
                assert float(value.detach().std()) == pytest.approx(0.0176, rel=0.15), name
    assert not model.word_embeddings[0].any()


def test_gpt_is_a_normal_that_is_not_truncated():
    weights = build(replace(CONFIG, attention="causal"), "clm").word_embeddings.detach()[1:]
    assert float(weights.std()) == pytest.approx(0.02, rel=0.02)
    assert float((weights.abs() > 0.04).float().mean()) == pytest.approx(0.0455, rel=0.15)  # beyond two deviations


def test_labels_belong_to_sequence_heads():
    model = build(CONFIG, "classification", labels=["bad", "good", "so-so"])
    assert model.labels == ("bad", "good", "so-so") and model.num_labels == 3 and model.problem_type is None
    assert build(CONFIG, "classification", labels=4).labels == ("LABEL_0", "LABEL_1", "LABEL_2", "LABEL_3")
    assert build(CONFIG, "regression").num_labels == 1
    assert build(CONFIG, "regression").problem_type == "regression"
    assert build(CONFIG, "mlm").labels == ()


@pytest.mark.parametrize(
    "head, options, said",
    [
        ("clasification", {}, "classification"),
        ("mlm", {"labels": 3}, "mlm"),
        (None, {"labels": ["a"]}, "labels"),
        ("classification", {"labels": ["a", "a"]}, "unique"),
        ("classification", {"labels": []}, "at least one"),
        ("classification", {"problem_type": "multi"}, "multi_label_classification"),
    ],
)
def test_impossible_heads_are_refused_in_words(head, options, said):
    with pytest.raises(ConfigError, match=said):
        build(CONFIG, head, **options)


def test_an_unsupported_request_to_a_head_is_rejected():
    model = build(CONFIG, "classification")
    with pytest.raises(InputError, match="predict masked tokens"):
        model.mlm_logits(torch.zeros(1, 64))
    with pytest.raises(InputError, match="no pooler"):
        build(CONFIG, "mlm").pool(torch.zeros(1, 64), None)


def test_a_tied_decoder_is_stored_and_trained_once():
    model = build(CONFIG, "mlm")
    assert sum(value.numel() for value in model.parameters() if 500 in value.shape) == 500 * 64 + 500
    model.mlm_logits(torch.ones(2, 64)).sum().backward()
    assert model.word_embeddings.grad is not None and model.word_embeddings.grad.any()
