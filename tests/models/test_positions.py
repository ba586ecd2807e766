"""Every kind of positions and every attention rule trains with every head, and has its documented effect."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from maskwright.data.batch import Batch
from maskwright.hub.folders import load_model
from maskwright.models.build import build
from maskwright.models.config import CHOICES, ModelConfig

CONFIG = ModelConfig(
    vocab_size=30,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=20,
    max_position_embeddings=24,
    hidden_dropout=0.0,
    attention_dropout=0.0,
    initializer_range=0.2,
    relative_distance=4,
    window_size=6,
    block_size=2,
    random_blocks=1,
)
SPARSE = ("window", "global", "big_bird", "big_bird_published")
KINDS = [
    *({"positions": kind} for kind in CHOICES["positions"]),
    *({"attention": rule, "positions": "rotary"} for rule in SPARSE),
    {"attention": "big_bird", "positions": "relative_key_value", "norm": "pre", "gated": True},
    {"attention": "window", "positions": "rotary", "rotary_local_theta": 100.0, "full_attention_every": 2},
]
IDS = torch.randint(1, 30, (4, 20), generator=torch.Generator().manual_seed(3))
LENGTHS = [20, 13, 17, 5]
MASK = (torch.arange(20) < torch.tensor(LENGTHS)[:, None]).long()
SEQUENCES = [row[:length].tolist() for row, length in zip(IDS, LENGTHS, strict=True)]


def rows(head):
    given = {"input_ids": IDS, "attention_mask": MASK}
    return {name: value.view(2, 2, 20) for name, value in given.items()} if head == "choice" else given


def named(kind):
    return "-".join(str(value) for value in kind.values())


@pytest.mark.parametrize("kind", KINDS, ids=named)
def test_neither_neighbors_nor_padding_nor_a_folder_change_a_number(kind, tmp_path):
    if kind.get("attention") == "big_bird_published":
        kind = kind | {"block_size": 4}  # rows of at most 28 attend fully, so that padding decides nothing
    model = build(replace(CONFIG, **kind), "mlm", seed=2).eval()
    packed = model.encode(Batch.from_sequences(SEQUENCES)).hidden.split(LENGTHS)
    padded = model(**rows("mlm")).last_hidden_state
    left = model(input_ids=(IDS * MASK).flip(1), attention_mask=MASK.flip(1)).last_hidden_state
    for row, (sequence, beside) in enumerate(zip(SEQUENCES, packed, strict=True)):
        alone = model.encode(Batch.from_sequences([sequence])).hidden
        torch.testing.assert_close(beside, alone, rtol=0, atol=1e-5)
        torch.testing.assert_close(padded[row, : len(sequence)], alone, rtol=0, atol=1e-5)
        if kind["positions"] not in (
            "absolute",
            "sinusoidal",
            "sinusoidal_halves",
        ):  # they count columns, as transformers does
            turned = model.encode(Batch.from_sequences([sequence[::-1]])).hidden
            torch.testing.assert_close(left[row, 20 - len(sequence) :], turned, rtol=0, atol=1e-5)
    model.save(tmp_path / "m")
    again, report = load_model(tmp_path / "m")
    assert again.config == model.config and not report.new and not report.unused
    assert torch.equal(again(**rows("mlm")).last_hidden_state, padded)


@pytest.mark.parametrize("positions", ["rotary", "relative_key", "relative_key_value", "relative_key_query", "none"])
def test_only_distances_count(positions):
    """Every place moved by five: not a number changes."""
    model = build(replace(CONFIG, positions=positions), seed=3).eval()
    ids = IDS[:, :15]
    here = model(input_ids=ids).last_hidden_state
    there = model(input_ids=ids, position_ids=torch.arange(5, 20)).last_hidden_state
    torch.testing.assert_close(there, here, rtol=0, atol=1e-5)


@pytest.mark.parametrize("positions", CHOICES["positions"])
def test_order_counts_unless_there_are_no_positions(positions):
    model = build(replace(CONFIG, positions=positions), seed=4).eval()
    order = torch.randperm(20, generator=torch.Generator().manual_seed(0))
    straight, mixed = model(input_ids=IDS).last_hidden_state, model(input_ids=IDS[:, order]).last_hidden_state
    is_blind = torch.allclose(mixed, straight[:, order], rtol=0, atol=1e-5)
    assert is_blind == (positions == "none")
