"""Cells and gradients of recurrent networks: values by the formulas, a planted unit found, fading measured."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from maskwright.core.errors import ConfigError, InputError
from maskwright.data.batch import Batch
from maskwright.inspect import cells
from maskwright.inspect.cells import (
    CONFIRMED,
    RULES,
    UnitActivations,
    documents_of,
    find_units,
    read_cells,
    rule_values,
    tokens_of,
)
from maskwright.inspect.gradients import fading, gradient_norms
from maskwright.inspect.reports import gradients_headline, headline, write_gradients
from maskwright.models.build import build
from maskwright.nn.recurrent import CELLS
from maskwright.text.tokenizers.tokenizer import Tokenizer
from models.recurrent_models import model, network


def said(rule, text):
    """What a rule says of each character, as a string of digits."""
    return "".join(str(int(value)) for value in RULES[rule][0](text))


@pytest.mark.parametrize(
    ("rule", "text", "expected"),
    [
        ("quotes", 'a "bc" d', "00011100"),
        ("quotes", "“a” b", "01100"),
        ("quotes", '"a\n\nb" c', "01110011"),
        ("line", "ab\ncde", "012012"),
        ("depth", "a(b[c])d)", "011221000"),
        ("capitals", "A DUKE, Duke I4 ÉTÉ", "0011110000000000111"),
        ("heading", "a: b\nFirst c:\nd\ne:", "000001111111100011"),
        ("comment", "a # b\nc /* d */ e", "00111000111111100"),
        ("condition", "x if ab: c", "0011111000"),
    ],
)
def test_rules_by_hand(rule, text, expected):
    assert said(rule, text) == expected


def tokenizer():
    return Tokenizer.train_from_iterator(
        ['abc def ghi jkl mno pqr stu vwx yz "quoted words" (in) 0123'], kind="char", vocab_size=60
    )


def read(text):
    return tokens_of([text], tokenizer())


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
def test_values_are_what_the_formulas_remember(cell):
    made = model(recurrent=cell)
    text = read("abc def ghi")
    values = read_cells(made, text).values
    assert values.shape == (11, 2, 12)
    hidden = made.encoder.embeddings(torch.from_numpy(text.ids), torch.arange(len(text.ids)), None, torch.float32)
    for depth, layer in enumerate(made.encoder.stack.layers):
        state = tuple(torch.zeros(1, 12) for _ in range(CELLS[cell].num_states))
        outputs = []
        for place, x in enumerate(hidden):
            state = CELLS[cell].step(layer.weights(), x[None], state)
            outputs.append(state[0])
            expected = state[1].tanh() if cell == "lstm" else state[0]
            if 0 < place <= 11:  # after [CLS]
                np.testing.assert_allclose(values[place - 1, depth], expected[0].detach(), atol=1e-5)
        hidden = torch.cat(outputs)


def test_streams_warm_up_with_the_text_before_them(monkeypatch):
    made, text = model(), read("abc def ghi jkl mno pqr stu vwx yz " * 4)
    whole = read_cells(made, text).values
    monkeypatch.setattr(cells, "STREAM", 20)
    monkeypatch.setattr(cells, "WARM_UP", 200)
    np.testing.assert_allclose(read_cells(made, text).values, whole, atol=1e-5)


def planted(noise=0.1):
    """A text whose unit 3 of layer 2 follows quotes."""
    rng = np.random.default_rng(0)
    text = 'he said "come here" and she "did not" go ' * 20
    values = rng.normal(size=(len(text), 2, 6)).astype(np.float32)
    values[:, 1, 3] = -RULES["quotes"][0](text) + noise * rng.normal(size=len(text))
    return UnitActivations(text, np.arange(1, len(text) + 1), values, False)


def noise_like(readings, units=6):
    """The same text read by a network that knows nothing of it."""
    rng = np.random.default_rng(1)
    values = rng.normal(size=(len(readings.ends), 2, units)).astype(np.float32)
    return UnitActivations(readings.text, readings.ends, values, False)


def test_a_unit_is_named_only_where_random_weights_do_not_follow_the_rule_as_well():
    trained, weaker = planted(), planted(noise=1.0)
    assert find_units(trained, "quotes", noise_like(trained), top=1)[0].is_confirmed
    best = find_units(weaker, "quotes", trained, top=1)[0]
    assert best.strength > CONFIRMED and best.random > 0.9 and not best.is_confirmed
    assert headline([best]).startswith("No unit is confirmed") and f"{best.random:.2f} with random" in headline([best])
    assert best.to_json()["is_confirmed"] is False and best.to_json()["random"] == best.random


def test_a_planted_unit_is_found_on_one_half_and_confirmed_on_the_other():
    best, second = find_units(planted(), "quotes", noise_like(planted()), top=2)
    assert (best.layer, best.unit) == (2, 3) and best.searched < -0.9 and best.confirmed < -0.9
    assert abs(second.confirmed) < 0.3 and "Unit 3 of layer 2" in headline([best])


def test_a_rule_that_never_changes_finds_nothing_and_an_unknown_one_names_the_nearest():
    assert find_units(planted(), "depth", planted()) == []
    with pytest.raises(ConfigError, match="quotes"):
        rule_values(planted(), "qoutes")


def test_documents_are_read_as_in_training(tmp_path):
    (tmp_path / "t.txt").write_text("abc\ndef\n\nghi\n")
    documents = documents_of(str(tmp_path / "t.txt"))
    assert documents == ["abc\ndef", "ghi"]
    text = tokens_of(documents, tokenizer())
    tok = tokenizer()
    assert text.text == "abc\ndef\n\nghi"
    assert text.ids[0] == tok.cls_id and text.ids[-1] == tok.sep_id and (text.ends < 0).sum() == 4
    shown = [text.text[end - 1 : end] for end in text.ends.tolist() if end >= 0]
    assert "".join(shown).replace("\n", " ") == "abc defghi"
    cut = text.first(3)
    assert len(cut.ids) == 3 and cut.text == "ab"


def test_what_has_no_cells_is_refused():
    with pytest.raises(InputError, match="unidirectional"):
        read_cells(model("bilstm-small", None), read("abc def"))
    with pytest.raises(InputError, match="fewer than 4"):
        read_cells(model(), read("a"))


# -- Vanishing gradients ---------------------------------------------------------------------------------------------

IDS = np.random.default_rng(0).integers(5, 60, size=400).tolist()


def test_the_norms_are_those_of_the_gradient_of_the_whole_text():
    made = model("rnn-small", num_hidden_layers=1)
    row = IDS[:8]
    norms = gradient_norms(made, np.array([row]))
    states, kept = None, []
    for token in row[:-1]:
        encoded = made.encode_stateful(Batch.from_sequences([[token]]), states)
        states = encoded.states
        kept.append(states[0][0])
    loss = F.cross_entropy(made.mlm_logits(encoded.hidden), torch.tensor(row[-1:]))
    expected = [float(torch.autograd.grad(loss, one, retain_graph=True)[0].norm()) for one in reversed(kept[:-1])]
    assert norms == pytest.approx(np.array(expected) / expected[0], rel=1e-4)


def test_a_gradient_is_what_a_small_change_of_the_memory_does_to_the_loss():
    made = model("gru-small", num_hidden_layers=1).double()
    row, far = IDS[:5], 2
    first = made.encode_stateful(Batch.from_sequences([row[:far]]))
    state = first.states[0][0].detach().requires_grad_()

    def loss(memory):
        rest = made.encode_stateful(Batch.from_sequences([row[far:-1]]), ((memory,),))
        return F.cross_entropy(made.mlm_logits(rest.hidden[-1:]), torch.tensor(row[-1:]))

    (slope,) = torch.autograd.grad(loss(state), state)
    nudge = torch.zeros_like(state)
    nudge[0, 0, 3] = 1e-6
    assert float((loss(state + nudge) - loss(state)) / 1e-6) == pytest.approx(float(slope[0, 0, 3]), rel=1e-3)


def test_an_rnn_fades_faster_than_an_lstm():
    found = {}
    for name in ("rnn-small", "lstm-small"):
        fresh = build(network(name, hidden_size=32), "clm", seed=1)
        found[name] = fading(fresh, IDS, 20, name)
    rnn, lstm = found["rnn-small"], found["lstm-small"]
    assert rnn.norms[0] == lstm.norms[0] == 1.0 and rnn.factor < lstm.factor < 1.05
    assert rnn.norms[-1] < lstm.norms[-1] / 5 and rnn.half < 3
    assert "of lstm-small remains" in gradients_headline([rnn, lstm])


def test_a_page_shows_every_network(tmp_path):
    fresh = build(network(), "clm")
    write_gradients(tmp_path / "g.html", [fading(fresh, IDS, 5, "one"), fading(fresh, IDS, 5, "two")])
    page = (tmp_path / "g.html").read_text()
    assert "one" in page and "two" in page and "data-chart" in page


def test_what_cannot_be_measured_is_refused():
    with pytest.raises(InputError, match="requires 52"):
        fading(model(), IDS[:20], 50)
    with pytest.raises(ConfigError, match="at least 2"):
        fading(model(), IDS, 1)
    with pytest.raises(InputError, match="recurrent"):
        fading(model("bilstm-small", None), IDS, 5)
