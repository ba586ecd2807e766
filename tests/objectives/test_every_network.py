"""Every kind of positions and every rule of attention learns by every objective."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from maskwright.models.build import build
from maskwright.models.config import CHOICES, ModelConfig
from maskwright.objectives.distillation import DistillationWeights, MaskedDistillation
from objectives.packing import VOCAB, batch_of, objective_of

CONFIG = ModelConfig(
    vocab_size=VOCAB,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=20,
    max_position_embeddings=24,
    hidden_dropout=0.0,
    attention_dropout=0.0,
    initializer_range=0.1,
    relative_distance=4,
    window_size=6,
    block_size=2,
    random_blocks=1,
)
NETWORKS = [
    *({"positions": kind} for kind in CHOICES["positions"]),
    *({"attention": rule, "positions": "rotary"} for rule in ("window", "global", "big_bird", "big_bird_published")),
    {"attention": "big_bird", "positions": "relative_key_value", "norm": "pre", "gated": True},
]


def made(name, config):
    """The objective `name`, and the network that it trains."""
    if name != "distill":
        objective = objective_of(name, generator_share=0.5)
        settings = objective.network_settings
        return objective, objective.network(replace(config, **settings), seed=1)
    teacher = build(replace(config, initializer_range=0.6), "mlm", seed=2)  # it has something to say
    student = build(config, "mlm", seed=1)
    return MaskedDistillation(objective_of("mlm").recipe, teacher, DistillationWeights(), student), student


NAMES = ["mlm", "mlm+nsp", "mlm+sop", "rtd", "clm", "distill"]


@pytest.mark.parametrize(("name", "network"), [(NAMES[number % 6], one) for number, one in enumerate(NETWORKS)])
def test_the_loss_of_every_part_falls(name, network):
    """A small batch is memorized in 20 steps."""
    objective, model = made(name, replace(CONFIG, **network))
    batch, first, last = batch_of(objective), {}, {}
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(20):
        outcome = objective.outcome(model.train(), batch)
        last = {part: float(loss.detach()) / outcome.counts[part] for part, loss in outcome.losses.items()}
        first = first or last
        optimizer.zero_grad()
        means = {part: loss / outcome.counts[part] for part, loss in outcome.losses.items()}
        sum(outcome.weights.get(part, 1.0) * mean for part, mean in means.items()).backward()
        optimizer.step()
    for part in objective.parts if name != "distill" else ("soft", "hidden"):  # the teacher contradicts the text
        assert last[part] < 0.9 * first[part], (part, first, last)
    assert all(bool(torch.isfinite(parameter).all()) for parameter in model.parameters())
