"""The comparison with the library accepts graphs of less precision and rejects wrong ones, for each family and head."""

from __future__ import annotations

import copy

import pytest
import torch

from export.small_models import ENCODERS, HEADS, small, small_translator, specification_of
from maskwright.core.errors import ConfigError
from maskwright.export.agreement import LIMITS, TorchRuntime, drawn_trials, limits_of, measure_runtimes
from maskwright.export.cached import networks_of
from maskwright.export.config import ExportConfig
from maskwright.export.network import most_tokens

LOWER = {
    "fp16": LIMITS["fp16"],
    "bf16": LIMITS["bf16"],
    "int8": limits_of(ExportConfig(model="model", output="out", precision="int8", calibrate_on="texts.txt")),
}


def shortfalls(model, change) -> dict[str, list[str]]:
    """What is beyond the limits of each precision if every weight is `change` of it."""
    networks, longest = networks_of(model), most_tokens(model.config)
    changed = networks_of(copy.deepcopy(model))
    with torch.no_grad():
        for parameter in changed[0].model.parameters():
            parameter.copy_(change(parameter))
    spec, trials = specification_of(model, networks, longest), drawn_trials(networks[0], longest)[:3]
    found = measure_runtimes(networks, {one.name: TorchRuntime(one) for one in changed}, spec, trials)
    return {name: found.shortfalls(limits) for name, limits in LOWER.items()}


def rounded(weight):
    """A weight in steps of 2 ** -14."""
    return (weight * 2**14).round() / 2**14


def built(name: str, head: str | None):
    """A network of a family with a head; skips what does not exist."""
    try:
        return small(name, head)
    except ConfigError:
        pytest.skip(f"{name} has no head {head}")


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("name", ENCODERS)
def test_rounded_weights_pass_and_other_weights_do_not(name, head):
    model = built(name, head)
    assert shortfalls(model, rounded) == {"fp16": [], "bf16": [], "int8": []}
    found = shortfalls(model, lambda one: one.roll(1, 0) if one.ndim > 1 else one)
    assert all(found.values()), found


@pytest.mark.parametrize("build", [lambda: small("gpt2", "clm"), small_translator])
def test_graphs_with_a_cache_are_compared_too(build):
    assert not any(shortfalls(build(), rounded).values())
    assert all(shortfalls(build(), lambda one: one.roll(1, 0) if one.ndim > 1 else one).values())


@pytest.mark.parametrize("distance", [16, 32, 64])
def test_a_distance_in_the_next_bucket_does_not_pass_as_half_precision(distance):
    model = small("mpnet-base", max_position_embeddings=140)
    with torch.no_grad():
        model.encoder.relative.weight.mul_(5)  # as large as in a trained model
    networks, longest = networks_of(model), most_tokens(model.config)
    wrong = networks_of(copy.deepcopy(model))
    buckets = wrong[0].model.encoder.relative.buckets
    for place in (128 - distance, 128 + distance):
        buckets[place] -= 1
    spec, trials = specification_of(model, networks, longest), drawn_trials(networks[0], longest)
    found = measure_runtimes(networks, {"model": TorchRuntime(wrong[0])}, spec, trials)
    assert found.shortfalls(LIMITS["fp16"])
    same = measure_runtimes(networks, {"model": TorchRuntime(networks[0])}, spec, trials)
    assert not same.shortfalls(LIMITS["fp16"])


@pytest.mark.parametrize("longest", [1, 40, 300, 5000])
def test_texts_of_the_comparison_are_beyond_every_distance_that_matters(longest):
    (network,) = networks_of(small("mpnet-base", max_position_embeddings=max(longest, 2)))
    lengths = {len(ids) for trial in drawn_trials(network, longest) for ids in trial.ids}
    assert {min(longest, one) for one in (1, 9, 17, 33, 65, 129, 257, 513, 1024)} <= lengths
    assert max(lengths) == min(longest, 1024)
