"""Activation checkpointing: recomputed layers give the same gradients and store less."""

from __future__ import annotations

import pytest
import torch

from maskwright.data.batch import Batch
from maskwright.models.build import build
from maskwright.models.config import ModelConfig
from maskwright.models.model import Model
from maskwright.models.sizes import activation_bytes
from models.kept import kept_bytes

SMALL = {
    "vocab_size": 100,
    "hidden_size": 32,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
}
LENGTHS = (5, 9, 9, 20)


def model_of(recomputes: bool, **changes: object) -> Model:
    model = build(ModelConfig(**(SMALL | changes)), head="mlm").train()
    model.recomputes = recomputes
    return model


def batch() -> Batch:
    return Batch.from_sequences([[7 + (place * length) % 90 for place in range(length)] for length in LENGTHS])


def loss_of(model: Model) -> torch.Tensor:
    torch.manual_seed(3)  # dropout
    hidden = model.encode(batch()).hidden
    return model.mlm_loss(hidden[::3], torch.arange(len(hidden[::3])))[0]


@pytest.mark.parametrize(
    "changes",
    [{}, {"norm": "pre", "positions": "rotary"}, {"num_hidden_groups": 1}, {"attention": "window", "window_size": 8}],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients_are_the_same_to_the_last_bit_with_dropout(changes: dict, dtype: torch.dtype):
    found = []
    for recomputes in (False, True):
        model = model_of(recomputes, **changes)
        model.compute_dtype = dtype
        loss = loss_of(model)
        loss.backward()
        found.append([loss.detach(), *(parameter.grad for parameter in model.parameters())])
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_a_decoder_runs_again_too(norm: str, monkeypatch: pytest.MonkeyPatch):
    from maskwright.models import transformer

    source, target, found, again = batch(), batch(), [], []
    original = transformer.checkpoint
    monkeypatch.setattr(transformer, "checkpoint", lambda *a, **k: again.append(a[0]) or original(*a, **k))
    for recomputes in (False, True):
        config = ModelConfig(**(SMALL | {"norm": norm, "num_decoder_layers": 3, "decoder_start_token_id": 2}))
        model = build(config, head="seq2seq").train()
        model.recomputes = recomputes
        assert model.recomputes == recomputes
        torch.manual_seed(3)  # dropout
        hidden = model.decode(target, model.encode(source).hidden, source).hidden
        loss = model.mlm_loss(hidden, target.input_ids, 0.1)[0]
        loss.backward()
        found.append([loss.detach(), *(parameter.grad for parameter in model.parameters())])
        assert len(again) == (4 + 3) * recomputes
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)


def test_layers_keep_their_inputs_alone():
    less, more = (kept_bytes(model, lambda: model.encode(batch())) for model in (model_of(True), model_of(False)))  # noqa: B023
    assert less < more / 3
    config = model_of(True).config
    reckoned = [activation_bytes(config, 20, "fp32", True, recomputed) for recomputed in (True, False)]
    assert reckoned[0] < 0.6 * reckoned[1]
