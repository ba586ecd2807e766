"""The network for graphs gives the numbers of the packed path, for every family, head and switch."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings

from drawn_networks import configs
from export.small_models import ENCODERS, HEADS, agreement_of, small, small_translator
from maskwright.core.errors import ConfigError, ModelFolderError
from maskwright.export.network import PaddedNetwork
from maskwright.models.build import build
from maskwright.models.model import SentenceSettings
from maskwright.models.presets import preset

CLOSE = 1e-5


def check(found) -> None:
    """Every output is that of the library, and every class too."""
    for name, one in found.outputs.items():
        assert one.largest_difference < CLOSE, name
        assert one.same_class in (None, 1.0), name


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("name", ENCODERS)
def test_every_family_and_head_agrees_with_the_packed_path(name: str, head: str | None):
    try:
        model = small(name, head)
    except ConfigError:
        pytest.skip(f"{name} has no head {head}")
    check(agreement_of(model))


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("method", ["cls", "mean", "max"])
def test_every_pooling_is_in_the_graph(method: str, normalize: bool):
    check(agreement_of(small("bert-tiny"), SentenceSettings(method, normalize)))


@pytest.mark.parametrize(
    "changes", [{}, {"positions": "rotary"}, {"positions": "relative_key_value", "relative_distance": 5}]
)
def test_causal_language_models_agree(changes):
    check(agreement_of(small("gpt2", "clm", **changes)))


@pytest.mark.parametrize("name", ["transformer-mini", "bart-base"])
def test_encoder_decoders_agree(name):
    check(agreement_of(small_translator(name)))


@settings(
    max_examples=25, phases=[Phase.generate], suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
@given(configs)
def test_every_combination_of_switches_agrees(config):
    model = build(config, None, seed=1).eval()
    try:
        found = agreement_of(model)
    except ModelFolderError as error:
        assert "sparse" in str(error)
        return
    # Some drawn networks amplify rounding: 1.3e-4 on a CPU with AVX2.
    assert found.outputs["last_hidden_state"].largest_difference < 1e-3


def test_padding_does_not_change_a_row():
    network = PaddedNetwork(small("bert-tiny"))
    ids = torch.tensor([[5, 6, 7]])
    ones = torch.ones_like(ids)
    alone = network(ids, ones, torch.zeros_like(ids))[1]
    wide = torch.nn.functional.pad(ids, (0, 30))
    mask = torch.nn.functional.pad(ones, (0, 30))
    torch.testing.assert_close(network(wide, mask, torch.zeros_like(wide))[1], alone)


def test_a_row_of_padding_alone_stays_finite():
    network = PaddedNetwork(small("bert-tiny"))
    ids = torch.zeros(2, 5, dtype=torch.long)
    mask = torch.zeros_like(ids)
    mask[0] = 1
    assert all(bool(one.isfinite().all()) for one in network(ids, mask, torch.zeros_like(ids)))


@pytest.mark.parametrize(
    ("name", "head", "changes", "reason"),
    [
        ("bilstm-small", None, {}, "recurrent"),
        ("bert-tiny", "tagging-crf", {}, "CRF"),
        ("bert-tiny", "classification", {"top_layers": 1}, "top_layers"),
        ("bert-tiny", None, {"attention": "big_bird", "block_size": 4}, "sparse pattern"),
    ],
)
def test_what_has_no_graph_is_refused_in_a_sentence(name, head, changes, reason):
    sizes = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2, "max_position_embeddings": 32}
    config = preset(name, **sizes, **({"num_attention_heads": 2} if name == "bert-tiny" else {}), **changes)
    with pytest.raises(ModelFolderError, match=reason):
        PaddedNetwork(build(config, head))
