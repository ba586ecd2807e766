"""The encoder-decoder: attention patterns, packs and padded rows, tied embeddings, pre-norm and post-norm."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from maskwright.core.errors import ConfigError, InputError
from maskwright.data.batch import Batch
from maskwright.hub.folders import load_model
from maskwright.models.build import build
from maskwright.models.config import ModelConfig
from maskwright.models.encoder_decoder import EncoderDecoder
from maskwright.models.model import Model

SIZES = {
    "vocab_size": 40,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_decoder_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 24,
    "type_vocab_size": 0,
    "pooler": False,
    "pad_token_id": 0,
    "decoder_start_token_id": 1,
    "eos_token_id": 2,
    "initializer_range": 0.3,
}
CONFIG = ModelConfig(**SIZES, positions="sinusoidal", scale_embeddings=True, embedding_norm=False)
TWO = replace(CONFIG, decoder_vocab_size=30)
SWITCHES = [
    CONFIG,
    replace(CONFIG, norm="pre"),
    TWO,
    replace(CONFIG, tie_word_embeddings=False, norm="pre", first_norm=False),
    replace(CONFIG, positions="rotary"),
    replace(CONFIG, positions="relative_key_value", relative_distance=4),
    replace(CONFIG, positions="absolute", gated=True, linear_bias=False, num_hidden_groups=1),
]
SOURCES = [[5, 6, 7, 8], [9], [10, 11, 12, 13, 14, 15], [16, 17]]
TARGETS = [[1, 5, 6], [1, 7, 8, 9, 10], [1], [1, 11]]


def made(config: ModelConfig = CONFIG) -> EncoderDecoder:
    """In evaluation mode and float64, so that equal is equal."""
    model = build(config, "seq2seq", seed=3)
    assert isinstance(model, EncoderDecoder)
    return model.double().eval()


def logits(model: EncoderDecoder, sources: list[list[int]], targets: list[list[int]]) -> list[torch.Tensor]:
    """Of each target, [length, vocab]."""
    source, target = Batch.from_sequences(sources), Batch.from_sequences(targets)
    with torch.no_grad():
        memory = model.encode(source).hidden
        found = model.mlm_logits(model.decode(target, memory, source).hidden)
    return list(found.split([len(one) for one in targets]))


@pytest.mark.parametrize("config", SWITCHES)
def test_a_pair_gives_what_it_gives_beside_others(config: ModelConfig):
    model = made(config)
    together = logits(model, SOURCES, TARGETS)
    for source, target, beside in zip(SOURCES, TARGETS, together, strict=True):
        (alone,) = logits(model, [source], [target])
        assert torch.allclose(alone, beside, atol=1e-9)


@pytest.mark.parametrize("config", SWITCHES)
def test_a_target_token_changes_nothing_before_it(config: ModelConfig):
    model, target, place = made(config), [1, 7, 8, 9, 10], 3
    changed = [*target[:place], target[place] + 1, *target[place + 1 :]]
    (one,), (other,) = logits(model, [SOURCES[0]], [target]), logits(model, [SOURCES[0]], [changed])
    assert torch.equal(one[:place], other[:place])
    assert not torch.allclose(one[place:], other[place:])


@pytest.mark.parametrize("config", SWITCHES)
def test_padded_rows_give_what_packs_give_and_every_parameter_learns(config: ModelConfig):
    model = made(config)
    ids = torch.tensor([row + [0] * (6 - len(row)) for row in SOURCES])
    mask = torch.tensor([[1] * len(row) + [0] * (6 - len(row)) for row in SOURCES])
    target = torch.tensor([row + [0] * (5 - len(row)) for row in TARGETS])
    kept = torch.tensor([[1] * len(row) + [0] * (5 - len(row)) for row in TARGETS])
    out = model(ids, mask, decoder_input_ids=target, decoder_attention_mask=kept, output_attentions=True)
    for row, packed in enumerate(logits(model, SOURCES, TARGETS)):
        assert torch.allclose(out.logits[row, : len(packed)], packed, atol=1e-9)
    assert all(torch.allclose(one.sum(-1), kept[:, None].double()) for one in out.cross_attentions)
    (out.logits**2).sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and bool(parameter.grad.any()), name


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=8), st.integers(0, 2**20))
def test_cross_attention_in_groups_is_attention_of_each_pair(pairs: list[tuple[int, int]], seed: int):
    from maskwright.nn.attention import scaled_dot_product
    from maskwright.nn.cross import CrossAttention, cross_attend, plan_pairs

    generator = torch.Generator().manual_seed(seed)
    attention = CrossAttention(8, 2, 0.0).double()
    for parameter in attention.parameters():
        torch.nn.init.normal_(parameter, generator=generator)
    lengths, others = zip(*pairs, strict=True)
    hidden, memory = (torch.randn(sum(n), 8, dtype=torch.float64, generator=generator) for n in (lengths, others))
    groups = plan_pairs(lengths, others, 2, torch.device("cpu"))
    context, weights = cross_attend(attention, hidden, memory=memory, groups=groups, want_weights=True)
    assert weights is not None
    for own, other, found, shares in zip(
        hidden.split(lengths), memory.split(others), context.split(lengths), weights, strict=True
    ):
        query = attention.query(own).view(len(own), 2, 4).transpose(0, 1)
        key, value = attention.key_value(other).view(len(other), 2, 2, 4).permute(1, 2, 0, 3)
        wanted, wanted_shares = scaled_dot_product(query, key, value)
        assert torch.allclose(found, wanted.transpose(0, 1).reshape(len(own), 8))
        assert torch.allclose(shares, wanted_shares)


@pytest.mark.parametrize("config", SWITCHES)
def test_a_folder_keeps_every_kind(tmp_path: Path, config: ModelConfig):
    model = made(config).float()
    model.save(tmp_path / "m")
    loaded, report = load_model(tmp_path / "m")
    assert loaded.config == config and not report.new and not report.unused
    for one, other in zip(logits(model, SOURCES, TARGETS), logits(loaded, SOURCES, TARGETS), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"attention": "causal"}, "does not support attention 'causal'"),
        ({"embedding_size": 16}, "does not support embedding_size"),
        ({"decoder_start_token_id": 40}, "decoder_start_token_id is 40"),
        ({"num_decoder_layers": 0, "decoder_vocab_size": 9}, "needs a decoder"),
    ],
)
def test_settings_that_do_not_fit_are_named(changes: dict[str, object], message: str):
    with pytest.raises(ConfigError, match=message):
        replace(CONFIG, **changes)


def test_heads_that_do_not_fit_are_refused():
    with pytest.raises(ConfigError, match="does not support head 'mlm'"):
        build(CONFIG, "mlm")
    with pytest.raises(ConfigError, match="needs a decoder"):
        build(replace(CONFIG, num_decoder_layers=0), "seq2seq")
    with pytest.raises(ConfigError, match="an encoder is needed here"):
        Model(CONFIG, "mlm")


def test_targets_that_do_not_fit_are_refused():
    model = made()
    source = Batch.from_sequences(SOURCES)
    memory = model.encode(source).hidden
    for targets, message in (
        ([[1]] * 3, "as many non-empty sources"),
        ([[40]] * 4, "id 40"),
        ([[1] * 25] * 4, "25 tokens"),
    ):
        with pytest.raises(InputError, match=message):
            model.decode(Batch.from_sequences(targets), memory, source)
    with pytest.raises(InputError, match="padding on the right"):
        model(torch.tensor([[5, 6]]), torch.tensor([[0, 1]]), decoder_input_ids=torch.tensor([[1]]))


def test_what_was_planned_while_scoring_serves_a_step_of_training():
    model = made()
    pairs = Batch.from_sequences([[5, 6, 7], [8]]), Batch.from_sequences([[1, 5], [1]])
    with torch.inference_mode():
        model.decode(pairs[1], model.encode(pairs[0]).hidden, pairs[0])
    hidden = model.train().decode(pairs[1], model.encode(pairs[0]).hidden, pairs[0]).hidden
    hidden.sum().backward()
