"""Packs and padded rows: no sequence touches another, whatever the switches and positions."""

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
from maskwright.models.config import CHOICES, ModelConfig
from maskwright.models.model import HEAD_NAMES

CONFIG = ModelConfig(
    vocab_size=97,
    hidden_size=24,
    num_hidden_layers=3,
    num_attention_heads=3,
    intermediate_size=40,
    max_position_embeddings=32,
)


def make(head=None, **options):
    model = build(CONFIG, head, **options).eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.2, generator=generator)
    return model


MODEL = make("pretraining")


def encode(sequences, model=MODEL, **options):
    return model.encode(Batch.from_sequences(sequences), **options)


# -- independence ------------------------------------------------------------------------------------------------


def run_poisoned(lengths, poison):
    """Outputs and gradients of the other sequences; only the tokens of sequence 1 have the vector `poison`."""
    model = make()
    ids = [[1 + (7 * i + j) % 60 for j in range(length)] for i, length in enumerate(lengths)]
    ids[1] = [96] * lengths[1]
    with torch.no_grad():
        model.word_embeddings[96] = poison
    batch = Batch.from_sequences(ids)
    others = torch.tensor([i != 1 for i, length in enumerate(lengths) for _ in range(length)])
    encoded = model.encode(batch, hidden_states=True, attentions=True)
    outputs = [state[others] for state in encoded.hidden_states]
    outputs.append(model.pool(encoded.hidden, batch)[[i for i in range(len(lengths)) if i != 1]])
    outputs += [one for layer in encoded.attentions for i, one in enumerate(layer) if i != 1]
    sum(one.square().sum() for one in outputs).backward()
    return [one.detach() for one in outputs], {name: value.grad for name, value in model.named_parameters()}


@pytest.mark.parametrize("poison", [float("nan"), float("inf"), 1e30, -1e4])
@pytest.mark.parametrize("lengths", [[5, 5, 5, 5], [3, 5, 7, 9]])
def test_poison_in_one_sequence_reaches_no_other(poison, lengths):
    """Equal lengths share one attention call, different ones do not: neither may leak a value or a gradient."""
    outputs, gradients = run_poisoned(lengths, 0.1)
    poisoned_outputs, poisoned_gradients = run_poisoned(lengths, poison)
    for one, other in zip(outputs, poisoned_outputs, strict=True):
        assert torch.equal(one, other)
    words = "encoder.embeddings.word.weight"
    assert torch.equal(gradients[words][:96], poisoned_gradients[words][:96])
    if poison == -1e4:  # while the poison stays finite, not even a weight that all share may notice
        for name, value in gradients.items():
            if name != words:
                torch.testing.assert_close(poisoned_gradients[name], value, rtol=1e-5, atol=1e-6, msg=name)


# -- nothing padded ----------------------------------------------------------------------------------------------


def test_every_layer_is_there_the_embeddings_first():
    batch = Batch.from_sequences([[5, 6, 7], [8, 9]])
    encoded = MODEL.encode(batch, hidden_states=True, attentions=True)
    assert len(encoded.hidden_states) == 3 + 1 and len(encoded.attentions) == 3
    assert torch.equal(encoded.hidden_states[-1], encoded.hidden)
    embedded = MODEL.encoder.embeddings(batch.input_ids, batch.position_ids, None, torch.float32)
    assert torch.equal(encoded.hidden_states[0], embedded)
    for layer in encoded.attentions:
        assert [tuple(one.shape) for one in layer] == [(3, 3, 3), (3, 2, 2)]
        assert all(torch.allclose(one.sum(-1), torch.ones(one.shape[:2])) for one in layer)
    plain = MODEL.encode(batch)
    assert plain.hidden_states is None and plain.attentions is None
    torch.testing.assert_close(plain.hidden, encoded.hidden, rtol=0, atol=1e-6)


def test_bfloat16_computes_low_and_learns_high():
    model = make("mlm")
    exact = encode([[5, 6, 7, 8]], model).hidden
    model.compute_dtype = torch.bfloat16
    hidden = encode([[5, 6, 7, 8]], model).hidden
    assert hidden.dtype == torch.bfloat16
    assert torch.cosine_similarity(hidden.float(), exact, dim=-1).min() > 0.999
    model.mlm_logits(hidden).float().sum().backward()
    assert all(p.grad.dtype == p.dtype == torch.float32 for p in model.parameters() if p.grad is not None)


# -- bad input ---------------------------------------------------------------------------------------------------


def test_as_many_tokens_as_positions_work_and_one_more_is_named():
    assert encode([[5] * 32]).hidden.shape == (32, 24)
    with pytest.raises(InputError, match=r"33 tokens.* at most 32"):
        encode([[5] * 33])


@pytest.mark.parametrize("bad", [97, -1, 10**12])
def test_an_id_out_of_the_vocabulary_is_named(bad):
    with pytest.raises(InputError, match=f"Token id {bad:,}".replace("-", r"\-")):
        encode([[5, bad]])


def test_a_token_type_out_of_the_table_is_named():
    batch = Batch.from_sequences([[5, 6]], token_types=[[0, 2]])
    with pytest.raises(InputError, match="Token type 2"):
        MODEL.encode(batch)


def test_an_empty_pack_is_no_error_but_an_empty_sequence_cannot_be_pooled():
    assert encode([]).hidden.shape == (0, 24)
    batch = Batch.from_sequences([[5], [], [6]])
    hidden = MODEL.encode(batch).hidden
    with pytest.raises(InputError, match="Sequence 1"):
        MODEL.pool(hidden, batch)


# -- Every kind of positions and every attention rule trains with every head, and has its ----------------------------

SMALL = ModelConfig(
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
    model = build(replace(SMALL, **kind), "mlm", seed=2).eval()
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
    model = build(replace(SMALL, positions=positions), seed=3).eval()
    ids = IDS[:, :15]
    here = model(input_ids=ids).last_hidden_state
    there = model(input_ids=ids, position_ids=torch.arange(5, 20)).last_hidden_state
    torch.testing.assert_close(there, here, rtol=0, atol=1e-5)


@pytest.mark.parametrize("positions", CHOICES["positions"])
def test_order_counts_unless_there_are_no_positions(positions):
    model = build(replace(SMALL, positions=positions), seed=4).eval()
    order = torch.randperm(20, generator=torch.Generator().manual_seed(0))
    straight, mixed = model(input_ids=IDS).last_hidden_state, model(input_ids=IDS[:, order]).last_hidden_state
    is_blind = torch.allclose(mixed, straight[:, order], rtol=0, atol=1e-5)
    assert is_blind == (positions == "none")


# -- Every combination of switches -----------------------------------------------------------------------------------

heads = st.sampled_from([None, *(name for name in HEAD_NAMES if name not in ("seq2seq", "bilm"))])  # of other networks


def drawn(config, head, seed):
    if head == "clm":
        config = replace(config, attention="causal", full_attention_every=0, conv_width=0)
    return build(config, head, seed=seed)


SHORT = [[7, 8, 9, 10], [11, 12], [13, 14, 15, 16, 17, 18], [19, 20, 21, 22]]


def padded(side="right"):
    ids, mask = torch.full((4, 8), 6), torch.zeros(4, 8, dtype=torch.int64)
    for row, sequence in enumerate(SHORT):
        place = slice(0, len(sequence)) if side == "right" else slice(8 - len(sequence), 8)
        ids[row, place], mask[row, place] = torch.tensor(sequence), 1
    return {"input_ids": ids, "attention_mask": mask}


@settings(max_examples=30)
@given(config=configs, head=heads)
def test_packing_and_padding_change_no_number(config, head):
    model = drawn(config, head, 1).eval()
    alone = [model.encode(Batch.from_sequences([one])).hidden for one in SHORT]
    packed = model.encode(Batch.from_sequences(SHORT)).hidden.split([len(one) for one in SHORT])
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
    for row, sequence in enumerate(SHORT):
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
