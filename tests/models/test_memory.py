"""Estimated memory, compared with what torch stores for the backward pass of real models."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from maskwright.data.batch import Batch
from maskwright.models.build import build
from maskwright.models.model import Model
from maskwright.models.presets import preset
from maskwright.models.sizes import activation_bytes, training_memory
from models.kept import kept_bytes

SMALL = {
    "vocab_size": 300,
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 128,
}
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def kept_of(model: Model, batch: Batch, positions: torch.Tensor) -> int:
    """Bytes that autograd keeps of a step of masked language modeling, with plain logits."""

    def run() -> None:
        scores = model.mlm_logits(model.encode(batch).hidden[positions]).float()
        F.cross_entropy(scores, torch.zeros(len(positions), dtype=torch.int64))

    return kept_bytes(model, run)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("bert-base", {}),
        ("bert-base", {"hidden_dropout": 0.0, "attention_dropout": 0.0}),
        ("albert-base", {"embedding_size": 32}),
        ("modernbert-base", {"window_size": 16}),
        ("bert-base", {"attention": "causal"}),
        ("gpt2", {}),
    ],
)
@pytest.mark.parametrize(("length", "precision"), [(16, "fp32"), (96, "bf16")])
def test_what_is_reckoned_is_what_autograd_keeps(name: str, changes: dict, precision: str, length: int):
    config = preset(name, **(SMALL | changes))
    model = build(config, head="mlm").train()
    model.compute_dtype = DTYPES[precision]
    sequences = 384 // length
    batch = Batch.from_sequences([[7 + place % 200 for place in range(length)]] * sequences)
    positions = torch.arange(0, batch.num_tokens, 7)
    reckoned = training_memory(
        config, model.num_parameters, length=length, sequences=sequences, scored=0, precision=precision, on_cpu=True
    )
    scores = 4 * len(positions) * config.vocab_size  # of these the forward pass keeps one copy
    assert reckoned.activations + reckoned.cast_weights + scores == pytest.approx(
        kept_of(model, batch, positions), rel=0.08
    )


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("transformer-base", {}),
        ("transformer-base", {"norm": "pre", "attention_dropout": 0.1, "hidden_dropout": 0.0}),
        ("bart-base", {}),
    ],
)
@pytest.mark.parametrize(("lengths", "precision"), [((16, 16), "fp32"), ((96, 20), "bf16")])
def test_the_same_for_an_encoder_decoder(name: str, changes: dict, precision: str, lengths: tuple[int, int]):
    config = preset(name, **(SMALL | {"num_decoder_layers": 2} | changes))
    model = build(config, head="seq2seq").train()
    model.compute_dtype = DTYPES[precision]
    sequences = 384 // lengths[0]
    source, target = (
        Batch.from_sequences([[7 + place % 200 for place in range(length)]] * sequences) for length in lengths
    )
    positions = torch.arange(0, target.num_tokens, 7)

    def run() -> None:
        hidden = model.decode(target, model.encode(source).hidden, source).hidden
        F.cross_entropy(model.mlm_logits(hidden[positions]).float(), torch.zeros(len(positions), dtype=torch.int64))

    reckoned = training_memory(
        config,
        model.num_parameters,
        length=lengths[0],
        target=lengths[1],
        sequences=sequences,
        scored=0,
        precision=precision,
        on_cpu=True,
    )
    scores = 4 * len(positions) * config.vocab_size
    assert reckoned.activations + reckoned.cast_weights + scores == pytest.approx(kept_bytes(model, run), rel=0.08)


def test_activations_grow_with_the_tokens_and_on_a_gpu_not_with_their_square():
    config = preset("bert-base")
    assert activation_bytes(config, 512) == activation_bytes(config, 128)
    assert activation_bytes(config, 512, on_cpu=True) > 1.5 * activation_bytes(config, 128, on_cpu=True)
