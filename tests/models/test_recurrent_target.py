"""The recurrent decoder: its formulas, packs, what attention sees, and what the network without it begins with."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from maskwright.core.errors import ConfigError, InputError
from maskwright.data.batch import Batch
from maskwright.hub.folders import load_model, save_model
from maskwright.models.build import build
from maskwright.models.config import ModelConfig
from maskwright.models.encoder_decoder import EncoderDecoder
from maskwright.models.presets import preset
from maskwright.nn.recurrent import CELLS

SMALL = {
    "vocab_size": 30, "hidden_size": 8, "num_hidden_layers": 2, "num_decoder_layers": 2, "hidden_dropout": 0.0,
    "decoder_start_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
ATTENTION = [("none", False), ("dot", False), ("bilinear", True), ("mlp", False), ("mlp", True), ("additive", True)]
LENGTHS = st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), min_size=1, max_size=4)


def network(**changes: object) -> ModelConfig:
    return preset("seq2seq-small", **{**SMALL, **changes})


def made(seed: int = 0, **changes: object) -> EncoderDecoder:
    """In evaluation mode and float64, with weights large enough that tokens matter."""
    model = build(network(**changes), "seq2seq", seed=seed).double().eval()
    draws = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.5, generator=draws)
    assert isinstance(model, EncoderDecoder)
    return model


def pairs(lengths: list[tuple[int, int]], seed: int = 0) -> Batch:
    """Sources and targets of these lengths."""
    draws = torch.Generator().manual_seed(seed)
    sides = [[torch.randint(3, 30, (pair[side],), generator=draws).numpy() for pair in lengths] for side in (0, 1)]
    return replace(Batch.from_sequences(sides[0]), target=Batch.from_sequences(sides[1]))


def by_hand(model: EncoderDecoder, batch: Batch) -> Tensor:
    """What the decoder gives for one pair, by the formulas of the module, a token and a layer at a time."""
    writer, memory = model.decoder, model.encode(batch).hidden  # C: [source, hidden]
    cell, half = CELLS[writer.first.cell], memory.shape[1] // 2
    v = torch.cat([memory[-1, :half], memory[0, half:]])  # the forward and the backward state
    layers = [writer.first, *(writer.upper.layers if writer.upper is not None else [])]
    begun = [torch.tanh(F.linear(v, bridge.weight, bridge.bias)) for bridge in writer.bridges]
    states = [tuple(part[None] for part in state.chunk(cell.num_states)) for state in begun]

    def look(asking: Tensor) -> Tensor:
        score = writer.alignment
        if score.score == "dot":
            e = memory @ asking
        elif score.score == "bilinear":
            e = memory @ (asking @ score.W.weight)
        else:
            both = torch.cat([asking.expand(len(memory), -1), memory], dim=1)
            first = score.W_1 or score.w_a
            e = torch.tanh(both @ first.weight.T)
            e = e @ score.w_2.weight[0] if score.w_2 is not None else e[:, 0]
        return torch.softmax(e, dim=0) @ memory

    found = []
    for y in writer.embeddings.word.weight[batch.target.input_ids]:
        context = look(states[0][0][0]) if writer.feeds else None
        x = y if context is None else torch.cat([y, context])
        for number, layer in enumerate(layers):
            states[number] = cell.step(layer.weights(), x[None], states[number])
            h = states[number][0][0]
            x = h + x if number and writer.upper.residual else h
        if writer.alignment is None:
            found.append(x)
            continue
        context = look(x) if context is None else context
        found.append(torch.tanh(writer.readout.weight @ torch.cat([x, context]) + writer.readout.bias))
    return torch.stack(found)


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
@pytest.mark.parametrize(("score", "feeds"), ATTENTION)
@pytest.mark.parametrize(("layers", "residual"), [(1, False), (3, True)])
def test_the_decoder_is_its_formulas(cell: str, score: str, feeds: bool, layers: int, residual: bool):
    model = made(
        recurrent=cell, attention_score=score, input_feeding=feeds, num_decoder_layers=layers,
        recurrent_residual=residual,
    )  # fmt: skip
    batch = pairs([(5, 4)])
    with torch.no_grad():
        found = model.decode(batch.target, model.encode(batch).hidden, batch).hidden
        torch.testing.assert_close(found, by_hand(model, batch))


@pytest.mark.parametrize(("score", "feeds"), ATTENTION)
@settings(max_examples=10, deadline=None)
@given(lengths=LENGTHS)
def test_a_pack_gives_what_its_pairs_give_one_by_one(score: str, feeds: bool, lengths: list[tuple[int, int]]):
    model, batch = made(attention_score=score, input_feeding=feeds), pairs(lengths)
    wanted = {"attentions": True, "hidden_states": True}
    with torch.no_grad():
        together = model.decode(batch.target, model.encode(batch).hidden, batch, **wanted)
        parts = zip(
            batch.input_ids.split(batch.lengths), batch.target.input_ids.split(batch.target.lengths), strict=True
        )
        for number, (source, target) in enumerate(parts):
            own = Batch.from_sequences([source.numpy()])
            alone = model.decode(Batch.from_sequences([target.numpy()]), model.encode(own).hidden, own, **wanted)
            begin = sum(batch.target.lengths[:number])
            torch.testing.assert_close(together.hidden[begin : begin + len(target)], alone.hidden)
            if score == "none":
                assert together.cross_attentions is None
                continue
            torch.testing.assert_close(together.cross_attentions[0][number], alone.cross_attentions[0][0])
            assert together.cross_attentions[0][number].shape == (1, len(target), len(source))
            assert torch.allclose(alone.cross_attentions[0][0].sum(dim=-1), torch.ones(1, 1, dtype=torch.float64))
    assert len(together.hidden_states) == 3
    assert torch.equal(together.hidden_states[-1], together.hidden)


def target_logits(model: EncoderDecoder, batch: Batch) -> Tensor:
    """Logits of every target token with teacher forcing, [target tokens, vocab]."""
    assert batch.target is not None
    return model.mlm_logits(model.decode(batch.target, model.encode(batch).hidden, batch).hidden)


@pytest.mark.parametrize("changes", [{}, {"decoder_vocab_size": 17}, {"tie_word_embeddings": False}])
def test_a_folder_gives_the_same_numbers(tmp_path, changes: dict[str, object]):
    model = made(**changes).float()
    save_model(model, tmp_path / "model")
    again, report = load_model(tmp_path / "model")
    assert not report.new and not report.unused and again.config == model.config
    batch = pairs([(4, 3), (2, 5)])
    batch = replace(batch, target=replace(batch.target, input_ids=batch.target.input_ids % 17))
    with torch.no_grad():
        assert torch.equal(target_logits(again, batch), target_logits(model, batch))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"attention_score": "none"}, "input_feeding needs attention"),
        ({"num_decoder_layers": 0}, "need a recurrent encoder-decoder"),
        ({"attention_score": "cosine"}, "must be one of none, dot, bilinear, mlp, additive"),
        ({"character_width": 3}, "does not support character_width and num_decoder_layers"),
    ],
)
def test_settings_that_do_not_fit_are_named(changes: dict[str, object], said: str):
    with pytest.raises(ConfigError, match=said):
        network(**changes)


def test_texts_over_the_limit_and_empty_sources_are_refused():
    model = made(max_position_embeddings=6)
    with pytest.raises(InputError, match="supports at most 6"):
        target_logits(model, pairs([(7, 3)]))
    with pytest.raises(InputError, match="supports at most 6"):
        target_logits(model, pairs([(3, 7)]))
    empty = replace(Batch.from_sequences([[4, 5], []]), target=Batch.from_sequences([[1], [1]]))
    with pytest.raises(InputError, match="non-empty sources"):
        target_logits(model, empty)
