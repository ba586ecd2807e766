"""What the contracts share: small sizes, rows of different length, models in which every parameter matters."""

from copy import deepcopy
from dataclasses import replace
from typing import Any

import torch

from inference.samples import tokenizer
from maskwright.models.build import build
from maskwright.train.loop import Window

TOLERANCE = 1e-5
SMALL: dict[str, Any] = {
    "vocab_size": 150,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 48,
    "max_position_embeddings": 48,
}
ROWS = [[5, 6, 7, 8, 9, 10, 11], [12, 13, 14], [15], [16, 17, 18, 19, 20, 21, 22], [23, 24]]


def fitting(config, head):
    """Return the configuration, causal for the head `clm`, with a decoder for `seq2seq`."""
    if head == "bilm" and config.recurrent is None:
        apart = {"recurrent": "lstm", "separate_directions": True, "positions": "none"}
        return replace(config, pooler=False, classifier_act="tanh", choice_act="tanh", type_vocab_size=0, **apart)
    if head == "seq2seq" and not config.num_decoder_layers:
        return replace(config, num_decoder_layers=2, decoder_start_token_id=0)
    return replace(config, attention="causal", full_attention_every=0) if head == "clm" else config


def lively(config, head=None, **options):
    """A model in evaluation mode whose every parameter is drawn at a spread of 0.2, with a tokenizer."""
    model = build(fitting(config, head), head, **options).eval()
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.2, generator=generator)
    model.tokenizer = tokenizer()
    return model


def close(one, other, what):
    """Assert that two tensors of any shape [...] agree to 1e-5."""
    assert one.shape == other.shape, f"{what}: {list(one.shape)} and {list(other.shape)}"
    difference = float((one - other).detach().abs().max()) if one.numel() else 0.0
    assert difference <= TOLERANCE, f"{what} differs by {difference:.2g}"


def every_parameter_learns(model, loss):
    """Assert that `loss`, a scalar, has a gradient that is finite and not zero for every parameter that trains."""
    model.zero_grad()
    loss.backward()
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            assert parameter.grad is not None and bool(parameter.grad.any()), f"{name} gets no gradient"
            assert bool(torch.isfinite(parameter.grad).all()), f"the gradient of {name} is not finite"


def reads_nothing(model, batch, outcome_of):
    """Assert that no step of training reads what a device computes, for which the host would wait.

    The device "meta" stands for a GPU: it has no numbers that could be read.
    """
    model = deepcopy(model).train().to("meta")
    outcome = outcome_of(model, batch.to("meta"))
    torch.stack(list(outcome.losses.values())).sum().backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    Window().add(outcome, batch.num_all_tokens)
