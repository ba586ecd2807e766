"""Causal networks: attention, heads and folders."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.samples import tokenizer
from maskwright.core.errors import ConfigError, ModelFolderError
from maskwright.data.batch import Batch
from maskwright.hub.folders import load_model
from maskwright.models.build import build
from maskwright.models.config import CHOICES, ModelConfig
from maskwright.models.model import Model

CAUSAL = ModelConfig(
    vocab_size=150,
    hidden_size=32,
    num_hidden_layers=3,
    num_attention_heads=2,
    intermediate_size=48,
    max_position_embeddings=24,
    initializer_range=0.3,
    attention="causal",
)
SEQUENCES = [[7, 8, 9, 10], [11, 12], [13, 14, 15, 16, 17, 18, 9, 11], [19, 20, 21, 22]]


def made(head: str | None = "clm", config: ModelConfig = CAUSAL) -> Model:
    model = build(config, head, seed=1).eval()
    model.tokenizer = tokenizer()
    return model


@settings(max_examples=20)
@given(place=st.integers(1, 7), positions=st.sampled_from(CHOICES["positions"]), norm=st.sampled_from(["pre", "post"]))
def test_changing_a_token_changes_no_output_before_it(place, positions, norm):
    model = made(config=replace(CAUSAL, positions=positions, norm=norm))
    changed = [list(one) for one in SEQUENCES]
    changed[2][place] = 99
    one, other = (model.encode(Batch.from_sequences(rows)).hidden for rows in (SEQUENCES, changed))
    start = len(SEQUENCES[0]) + len(SEQUENCES[1])
    assert torch.equal(one[: start + place], other[: start + place])
    assert not torch.equal(one[start + place], other[start + place])
    assert torch.equal(one[start + 8 :], other[start + 8 :]), "another sequence of the pack saw it"


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("act", [None, "tanh"], ids=["pooled", "own dense layer"])
def test_a_head_on_whole_sequences_judges_the_last_token_packed_and_padded(side, act):
    model = made("classification", replace(CAUSAL, classifier_act=act))
    batch = Batch.from_sequences(SEQUENCES)
    packed = model.logits(batch)
    ids, mask = torch.zeros(4, 8, dtype=torch.int64), torch.zeros(4, 8, dtype=torch.int64)
    for row, sequence in enumerate(SEQUENCES):
        place = slice(0, len(sequence)) if side == "right" else slice(8 - len(sequence), 8)
        ids[row, place], mask[row, place] = torch.tensor(sequence), 1
    position_ids = None if side == "right" else (mask.cumsum(1) - 1).clamp(min=0)
    padded = model(input_ids=ids, attention_mask=mask, position_ids=position_ids).logits
    torch.testing.assert_close(padded, packed, rtol=0, atol=1e-5)
    changed = [[*sequence[:-1], 99] for sequence in SEQUENCES]
    assert ((model.logits(Batch.from_sequences(changed)) - packed).abs().amax(1) > 1e-3).all()


def test_next_token_prediction_rejects_a_network_with_access_to_them():
    with pytest.raises(ConfigError, match="causal"):
        build(replace(CAUSAL, attention="full"), "clm")
    with pytest.raises(ConfigError, match="full_attention_every"):
        replace(CAUSAL, full_attention_every=2)


def test_only_the_decoder_is_written_as_bert_and_all_come_back(tmp_path):
    for head, model_type in (("clm", "bert"), ("classification", "maskwright"), (None, "maskwright")):
        model = made(head)
        model.save(tmp_path / str(head))
        written = json.loads((tmp_path / str(head) / "config.json").read_text())
        assert written["model_type"] == model_type, head
        again, report = load_model(tmp_path / str(head))
        assert again.config == model.config and not report.new and not report.unused
        batch = Batch.from_sequences(SEQUENCES)
        assert torch.equal(again.encode(batch).hidden, model.encode(batch).hidden)


@pytest.mark.parametrize(
    "changes, words",
    [({"architectures": ["BertModel"]}, "only supported for BertLMHeadModel"), ({"is_decoder": False}, "must be true")],
)
def test_folders_that_mean_something_else_are_refused_in_words(changes, words, tmp_path):
    model = made()
    model.tokenizer = None
    model.save(tmp_path / "m")
    for name in ("manifest.json", "maskwright.json", "README.md"):
        (tmp_path / "m" / name).unlink()  # as another program would write it
    path = tmp_path / "m" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(ModelFolderError, match=words):
        load_model(tmp_path / "m")
