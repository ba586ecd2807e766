"""4,096 tokens through a whole network, forward and backward: nothing of the size of length times length."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from maskwright.data.batch import Batch
from maskwright.models.build import build
from maskwright.models.config import ModelConfig
from nn.costs import Largest

LONG = 4096
CONFIG = ModelConfig(
    vocab_size=50,
    hidden_size=8,
    num_hidden_layers=2,
    num_attention_heads=1,
    intermediate_size=16,
    max_position_embeddings=LONG,
    block_size=16,
    random_blocks=2,
    window_size=32,
    relative_distance=8,
)
NETWORKS = [
    {"attention": "window", "positions": "rotary"},
    {"attention": "window", "positions": "none", "relative_buckets": 32},
    {"attention": "global", "positions": "sinusoidal"},
    {"attention": "big_bird"},
    {"attention": "big_bird", "positions": "relative_key_value", "norm": "pre"},
    {"attention": "big_bird_published"},
]


def ids_of(length):
    """int64 [length], the same every time."""
    return torch.randint(1, 50, (length,), generator=torch.Generator().manual_seed(length))


def packed_step(model, length):
    """Predict 20 tokens of one text."""
    hidden = model.encode(Batch.from_sequences([ids_of(length).tolist()])).hidden
    (hidden.square().sum() + model.mlm_logits(hidden[:20]).logsumexp(-1).sum()).backward()


def padded_step(model, length):
    """The padded call: one row that fills the batch, one that does not."""
    ids = ids_of(length).repeat(2, 1)
    mask = torch.ones_like(ids)
    mask[1, length * 3 // 4 :] = 0
    model(input_ids=ids, attention_mask=mask, labels=torch.where(ids == 7, ids, -100)).loss.backward()


def largest(network, step, length):
    """The most elements of any tensor of a training step."""
    model = build(replace(CONFIG, **network), "mlm").train()
    with Largest() as found:
        step(model, length)
    return found.elements


@pytest.mark.parametrize(("network", "step"), [*((one, packed_step) for one in NETWORKS), (NETWORKS[-1], padded_step)])
def test_no_tensor_of_a_training_step_is_as_large_as_length_times_length(network, step):
    whole = largest(network, step, LONG)
    assert whole < LONG * LONG / 16
    assert whole <= 2.1 * largest(network, step, LONG // 2)


def test_full_attention_in_the_same_place_does_make_one():
    length = 1024
    assert largest({"positions": "relative_key"}, packed_step, length) >= length * length
