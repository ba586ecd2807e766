"""Vanishing gradients: equal to finite differences, faster in an RNN than in an LSTM, and rejected input."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from maskwright.core.errors import ConfigError, InputError
from maskwright.data.batch import Batch
from maskwright.inspect.gradients import fading, gradient_norms
from maskwright.inspect.reports import gradients_headline as headline
from maskwright.inspect.reports import write_gradients
from maskwright.models.build import build
from models.recurrent_models import model, network

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

    def loss(memory: torch.Tensor) -> torch.Tensor:
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
    assert rnn.norms[0] == lstm.norms[0] == 1.0
    assert rnn.factor < lstm.factor < 1.05
    assert rnn.norms[-1] < lstm.norms[-1] / 5
    assert rnn.half < 3
    assert "of lstm-small remains" in headline([rnn, lstm])


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
