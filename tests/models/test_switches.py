"""Every combination of switches: right shapes, packing changes nothing, padding changes nothing, folders come back."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn_networks import SIZES, configs
from maskwright.core.errors import InputError
from maskwright.data.batch import Batch
from maskwright.hub.folders import load_model
from maskwright.models.build import build
from maskwright.models.config import ModelConfig
from maskwright.models.model import HEAD_NAMES

heads = st.sampled_from([None, *(name for name in HEAD_NAMES if name not in ("seq2seq", "bilm"))])  # of other networks


def drawn(config, head, seed):
    """Build the model; the head `clm` gets a causal network."""
    if head == "clm":
        config = replace(config, attention="causal", full_attention_every=0, conv_width=0)
    return build(config, head, seed=seed)


SEQUENCES = [[7, 8, 9, 10], [11, 12], [13, 14, 15, 16, 17, 18], [19, 20, 21, 22]]


def padded(side="right"):
    """SEQUENCES as rows, ids and mask [4, 8], padded with 6."""
    ids, mask = torch.full((4, 8), 6), torch.zeros(4, 8, dtype=torch.int64)
    for row, sequence in enumerate(SEQUENCES):
        place = slice(0, len(sequence)) if side == "right" else slice(8 - len(sequence), 8)
        ids[row, place], mask[row, place] = torch.tensor(sequence), 1
    return {"input_ids": ids, "attention_mask": mask}


@settings(max_examples=30)
@given(config=configs, head=heads)
def test_packing_and_padding_change_no_number(config, head):
    model = drawn(config, head, 1).eval()
    alone = [model.encode(Batch.from_sequences([one])).hidden for one in SEQUENCES]
    packed = model.encode(Batch.from_sequences(SEQUENCES)).hidden.split([len(one) for one in SEQUENCES])
    rows = padded()
    if head == "choice":
        rows = {name: value.view(2, 2, 8) for name, value in rows.items()}
    out = model(**rows, output_hidden_states=True, output_attentions=True)
    hidden = out.last_hidden_state.view(4, 8, -1)
    for row, (one, other) in enumerate(zip(alone, packed, strict=True)):
        torch.testing.assert_close(other, one, rtol=0, atol=1e-5)
        torch.testing.assert_close(hidden[row, : len(one)], one, rtol=0, atol=1e-5)
    assert len(out.hidden_states) == len(out.attentions) + 1 == config.num_hidden_layers + 1
    for weights in out.attentions:
        sums = weights.sum(-1)
        kept = rows["attention_mask"].view(4, 1, 8).expand_as(sums).bool()
        torch.testing.assert_close(sums[kept], torch.ones_like(sums[kept]))


@settings(max_examples=20)
@given(config=configs, head=heads)
def test_folders_come_back_bit_for_bit(config, head):
    model = drawn(config, head, 2).eval()
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "m")
        again, report = load_model(Path(folder) / "m")
    assert again.config == model.config and again.head_name == head and not report.unused
    held = dict(again.named_parameters())
    assert held.keys() == dict(model.named_parameters()).keys()
    assert all(torch.equal(value, held[name]) for name, value in model.named_parameters())


@settings(max_examples=20)
@given(config=configs, head=heads)
def test_every_parameter_of_encoder_and_head_is_trained(config, head):
    model = drawn(config, head, 3)
    types = torch.arange(32).view(4, 8) % max(1, config.type_vocab_size)
    rows = padded() | {"token_type_ids": types}
    if head == "choice":
        rows = {name: value.view(2, 2, 8) for name, value in rows.items()}
    if head == "tagging-crf":  # its CRF has scores in addition to the logits
        rows["labels"] = torch.arange(32).view(4, 8) % 2
    out = model.eval()(**rows)
    parts = ("last_hidden_state", "pooler_output", "logits", "prediction_logits", "seq_relationship_logits")
    parts += ("sop_logits", "start_logits", "end_logits")
    total = sum(out[name].sin().sum() for name in parts if name in out)
    (total if out.loss is None else total + out.loss).backward()
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:  # the scale of an autoencoder is set once
            assert parameter.grad is not None and torch.isfinite(parameter.grad).all(), name


def test_positions_with_an_offset_begin_after_the_padding_row():
    config = ModelConfig(**SIZES, num_hidden_layers=1, positions="offset", pad_token_id=6)
    model = build(config).eval()
    assert model.encoder.embeddings.position.weight.shape[0] == 16 + 7
    left, right = model(**padded("left")), model(**padded("right"))
    for row, sequence in enumerate(SEQUENCES):
        a, b = left.last_hidden_state[row, 8 - len(sequence) :], right.last_hidden_state[row, : len(sequence)]
        torch.testing.assert_close(a, b, rtol=0, atol=1e-6)
    with pytest.raises(InputError, match="at most 16"):
        model.encode(Batch.from_sequences([list(range(7, 24))]))


def test_labels_for_heads_that_take_others_are_named():
    config = ModelConfig(**SIZES, num_hidden_layers=1)
    rows = padded()
    choice = build(config, "choice")
    with pytest.raises(InputError, match=r"\[batch, choices, seq\]"):
        choice(**rows)
    span = build(config, "qa")
    with pytest.raises(InputError, match="start_positions"):
        span(**rows, start_positions=torch.tensor([1.5, 2, 3, 4]), end_positions=torch.tensor([1, 2, 3, 4]))
    detector = build(config, "rtd")
    with pytest.raises(InputError, match="replaced"):
        detector(**rows, labels=torch.full((4, 8), 2))
    assert span(**rows, start_positions=torch.tensor([1, 2, 3, 4])).loss is None


@pytest.mark.parametrize(
    "dropped, silent", [("attention", "ffn"), ("inner", "ffn"), ("ffn", "attention"), ("both", None)]
)
def test_residual_dropout_falls_where_the_switch_says(dropped, silent):
    """With one of a layer's two outputs cut off, training is random exactly when the other is dropped."""
    config = ModelConfig(
        **SIZES,
        num_hidden_layers=1,
        hidden_dropout=0.5,
        attention_dropout=0.5 if dropped == "inner" else 0.0,
        residual_dropout=dropped,
    )
    layer = next(build(config).train().encoder.in_order)
    batch, hidden = Batch.from_sequences([[7, 8, 9, 10]]), torch.randn(4, 12)
    with torch.no_grad():
        for part, cut in (("attention", layer.ffn.down), ("ffn", layer.attention.out)):
            kept = cut.weight.clone()
            cut.weight.zero_()
            cut.bias.zero_()
            outputs = [layer(hidden, batch.runs)[0] for _ in range(8)]
            is_random = any(not torch.equal(outputs[0], one) for one in outputs[1:])
            assert is_random == (part != silent), part
            cut.weight.copy_(kept)
