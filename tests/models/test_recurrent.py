"""Recurrent and causal networks: directions, state, heads, folders, and rejected input."""

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
from maskwright.models.decoding.causal import decoder_of
from maskwright.models.decoding.rules import Rules
from maskwright.models.decoding.search import grow
from models.recurrent_models import model, network

ROWS = [[5, 6, 7, 8, 9], [10, 11], [12, 13, 14, 15, 16, 17, 18]]


def hidden(made, rows):
    batch = Batch.from_sequences(rows)
    return made.encode(batch).hidden.split(batch.lengths)


def test_a_text_in_pieces_is_the_text_whole_when_what_was_remembered_goes_on():
    made = model()
    whole = hidden(made, ROWS)
    first = made.encode_stateful(Batch.from_sequences([row[:2] for row in ROWS]))
    second = made.encode_stateful(Batch.from_sequences([row[2:] for row in ROWS]), first.states)
    rest = second.hidden.split([len(row) - 2 for row in ROWS])
    for own, other in zip(rest, whole, strict=True):
        torch.testing.assert_close(own, other[2:])
    forgetful = made.encode_stateful(Batch.from_sequences([row[2:] for row in ROWS]))
    assert not torch.allclose(forgetful.hidden, second.hidden)


@pytest.mark.parametrize("name", ["lstm-small", "bilstm-small"])
@pytest.mark.parametrize("head", ["classification", "tagging", "tagging-crf", "qa", "mlm", "choice"])
def test_every_head_gives_the_same_padded_and_packed(name, head):
    made = model(name, head)
    ids, mask = torch.zeros(3, 8, dtype=torch.int64), torch.zeros(3, 8, dtype=torch.int64)
    for number, row in enumerate(ROWS):
        ids[number, 8 - len(row) :], mask[number, 8 - len(row) :] = torch.tensor(row), 1
    if head == "choice":
        ids, mask = ids[None], mask[None]
    out = made(input_ids=ids, attention_mask=mask)
    if head == "qa":
        packed = made.logits(Batch.from_sequences(ROWS)).split([len(row) for row in ROWS])
        for number, part in enumerate(packed):
            shares = part[:, 0].softmax(0)
            torch.testing.assert_close(out.start_logits[number].softmax(0)[8 - len(part) :], shares)
    elif head in ("classification", "choice"):
        torch.testing.assert_close(out.logits.view(3, -1), made.logits(Batch.from_sequences(ROWS)).view(3, -1))
    else:
        encoded = Batch.from_sequences(ROWS)
        packed = made.mlm_logits(made.encode(encoded).hidden) if head == "mlm" else made.logits(encoded)
        torch.testing.assert_close(out.logits[mask.bool()], packed)


def test_the_head_of_both_directions_gives_the_losses_of_each():
    made = model("elmo-small", "bilm")
    ids = torch.tensor([ROWS[2]])
    out = made(input_ids=ids, labels=ids)
    assert out.logits.shape == (1, 7, 2, 60)
    shares = out.logits[0].log_softmax(-1)
    following = [-shares[place, 0, ids[0, place + 1]] for place in range(6)]
    before = [-shares[place, 1, ids[0, place - 1]] for place in range(1, 7)]
    torch.testing.assert_close(out.loss, torch.stack(following + before).mean())


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
def test_texts_grow_as_they_would_read_whole(cell):
    made = model(recurrent=cell)
    prompts = [[5, 6, 7], [8]]
    grown = grow(decoder_of(made, prompts, 6), prompts, Rules(greedy=True), max_new_tokens=6)
    for prompt, one in zip(prompts, grown, strict=True):
        row = list(prompt)
        for token in one.ids:
            assert int(made.mlm_logits(hidden(made, [row])[0][-1:]).argmax()) == token
            row.append(token)


def test_rows_of_a_decoder_go_on_in_any_order():
    made = model()
    decoder = decoder_of(made, [[5, 6], [7, 8]], 4)
    decoder.start()
    decoder.keep(torch.tensor([1, 0, 1]))
    found = decoder.step(torch.tensor([9, 9, 9]))
    expected = torch.cat([made.mlm_logits(hidden(made, [row])[0][-1:]) for row in ([7, 8, 9], [5, 6, 9], [7, 8, 9])])
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"recurrent": "lsmt"}, "rnn, gru, lstm"),
        ({"attention": "window"}, "is unidirectional"),
        ({"attention": "full", "hidden_size": 13}, "even hidden_size"),
        ({"separate_directions": True}, "is unidirectional"),
        ({"positions": "absolute"}, "positions 'absolute'"),
        ({"classifier_act": None}, "classifier_act"),
        ({"character_width": 64}, "character_width above its hidden_size"),
    ],
)
def test_what_a_recurrent_network_cannot_be_is_refused(changes, said):
    with pytest.raises(ConfigError, match=said):
        network(**changes)


def test_a_character_has_the_vector_of_its_word_and_words_are_what_is_read():
    made = model("bilstm-char-small", None, embedding_size=4, character_width=3)
    ids = [2, 7, 8, 5, 9, 10, 11, 3]
    found = hidden(made, [ids])[0]
    assert torch.equal(found[1], found[2]) and torch.equal(found[4], found[6])
    assert not torch.allclose(found[1], found[4])
    spaced = hidden(made, [[2, 7, 8, 5, 5, 9, 10, 11, 3]])[0]
    torch.testing.assert_close(spaced[-1], found[-1])  # one space or two
    with pytest.raises(ConfigError, match="cannot predict characters"):
        build(made.config, "mlm")


def test_a_head_of_another_kind_does_not_take_parts_that_are_called_alike(tmp_path):
    made = model("lstm-small", "clm")
    made.save(tmp_path / "m")
    classifier, report = load_model(tmp_path / "m", "classification", labels=2)
    assert "head.dense.weight" in report.new and "head.dense.weight" in report.unused
    assert not torch.equal(classifier.head.dense.weight, made.head.dense.weight)
    again, report = load_model(tmp_path / "m", "mlm")
    assert not report.new and torch.equal(again.head.dense.weight, made.head.dense.weight)


# -- Causal networks -------------------------------------------------------------------------------------------------

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


def made(head="clm", config=CAUSAL):
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
