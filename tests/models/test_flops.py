"""Operations are counted as torch counts them, and by hand."""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from maskwright.data.batch import Batch
from maskwright.models import sizes as flops
from maskwright.models.build import build
from maskwright.models.config import ModelConfig
from maskwright.models.presets import preset

SMALL = {
    "vocab_size": 100,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 48,
    "hidden_dropout": 0.0,
    "attention_dropout": 0.0,
}
LENGTH, SEQUENCES = 12, 3


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("bert-base", {}),
        ("albert-base", {"embedding_size": 16}),
        ("electra-small", {"embedding_size": 16}),
        ("modernbert-base", {"window_size": 256}),
        ("mpnet-base", {}),
        ("gpt2", {}),
    ],
)
def test_a_training_step_has_the_operations_that_torch_counts(name: str, changes: dict):
    config = preset(name, **SMALL, **changes)
    model = build(config, head="mlm").train()
    batch = Batch.from_sequences([list(range(5, 5 + LENGTH))] * SEQUENCES)
    positions = torch.arange(0, SEQUENCES * LENGTH, 4)
    with FlopCounterMode(display=False) as counter:
        hidden = model.encode(batch).hidden
        model.mlm_logits(hidden[positions]).sum().backward()
    tokens = SEQUENCES * LENGTH
    forward = tokens * (flops.linear_flops(config) + flops.attention_flops(config, LENGTH))
    forward += len(positions) * flops.word_head_flops(config)
    if config.attention == "causal":
        forward += _masked(config, tokens, LENGTH, config.num_hidden_layers)
    assert counter.get_total_flops() == pytest.approx(flops.TRAINING_PASSES * forward, rel=1e-9)


def _masked(config: ModelConfig, tokens: int, length: int, layers: int) -> float:
    """Operations with the masked keys of causal attention, which torch counts."""
    return tokens * layers * 4 * config.hidden_size * (length - (length + 1) / 2)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("transformer-base", {}),
        ("bart-base", {}),
        ("transformer-base", {"decoder_vocab_size": 80, "tie_word_embeddings": False, "norm": "pre"}),
    ],
)
def test_an_encoder_decoder_has_the_operations_that_torch_counts(name: str, changes: dict):
    config = preset(name, **SMALL, num_decoder_layers=3, **changes)
    model = build(config, head="seq2seq").train()
    source = Batch.from_sequences([list(range(5, 5 + LENGTH))] * SEQUENCES)
    target = Batch.from_sequences([list(range(5, 5 + LENGTH - 4))] * SEQUENCES)
    positions = torch.arange(0, target.num_tokens, 4)
    with FlopCounterMode(display=False) as counter:
        hidden = model.decode(target, model.encode(source).hidden, source).hidden
        model.mlm_logits(hidden[positions]).sum().backward()
    forward = SEQUENCES * sum(flops.text_flops(config, LENGTH, LENGTH - 4))
    forward += len(positions) * flops.word_head_flops(config) + _masked(config, target.num_tokens, LENGTH - 4, 3)
    assert counter.get_total_flops() == pytest.approx(flops.TRAINING_PASSES * forward, rel=1e-9)


def test_bert_base_by_hand():
    config = preset("bert-base")
    entries = 12 * (4 * 768 * 768 + 2 * 768 * 3072)
    assert entries == 84_934_656 == flops.linear_flops(config) // 2
    assert flops.attention_flops(config, 128) == 12 * 4 * 128 * 768
    assert flops.word_head_flops(config) == 2 * (768 * 768 + 768 * 30_522)
    assert flops.sequence_head_flops(config) == 2 * 768 * 770


@pytest.mark.parametrize(("length", "window"), [(5, 4), (16, 4), (16, 64), (1, 2)])
def test_keys_of_a_window_are_those_that_a_mask_has(length: int, window: int):
    config = ModelConfig(**SMALL, attention="window", window_size=window)
    places = torch.arange(length)
    mask = (places[:, None] - places[None, :]).abs() <= window // 2
    assert flops.keys_seen(config, length) == pytest.approx(float(mask.sum(1).float().mean()))
