"""Attention over a whole pack by one kernel: how it is called, and that a kernel that fails or errs is not used."""

from __future__ import annotations

import pytest
import torch

from maskwright.data.batch import Batch
from maskwright.models import transformer as attending
from maskwright.models.build import build
from maskwright.models.config import ModelConfig
from maskwright.nn import attention as varlen
from maskwright.nn.attention import SequenceOffsets, attend, scaled_dot_product

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)
LENGTHS = (3, 7, 7, 12)
SMALL_NETWORK = {
    "vocab_size": 40,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 16,
}


def by_hand(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, ends: SequenceOffsets, rate: float, causal: bool
):
    """What the kernel promises, sequence by sequence."""
    assert ends.offsets.dtype == torch.int32 and ends.longest == int(ends.offsets.diff().max())
    found = []
    bounds = ends.offsets.tolist()
    for start, stop in zip(bounds, bounds[1:], strict=False):
        parts = (x[start:stop].transpose(0, 1) for x in (query, key, value))  # each [heads, length, head_dim]
        found.append(scaled_dot_product(*parts, rate, causal)[0].transpose(0, 1))
    return torch.cat(found)


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch):
    """Replaces the GPU kernel; counts its calls."""
    calls = []

    def counted(*inputs):
        calls.append(inputs)
        return by_hand(*inputs)

    monkeypatch.setattr(varlen, "flash", counted)
    return calls


@pytest.mark.parametrize("causal", [False, True])
def test_one_kernel_gives_what_the_runs_give(kernel: list, causal: bool):
    batch = Batch.from_sequences([[5] * length for length in LENGTHS])
    qkv = torch.randn(batch.num_tokens, 3 * 16, generator=torch.Generator().manual_seed(1))
    found, weights = varlen.attend_varlen(qkv, batch.runs, 2, ends=batch.ends, causal=causal)
    torch.testing.assert_close(found, attend(qkv, batch.runs, 2, causal=causal)[0])
    assert weights is None and len(kernel) == 1
    _, weights = varlen.attend_varlen(qkv, batch.runs, 2, ends=batch.ends, causal=causal, want_weights=True)
    assert [weight.shape for weight in weights] == [(2, length, length) for length in LENGTHS] and len(kernel) == 1


@pytest.mark.parametrize(
    "changes", [{}, {"positions": "rotary"}, {"attention": "causal"}, {"attention": "window", "window_size": 4}]
)
def test_a_network_uses_it_where_attention_has_no_other_request(
    kernel: list, monkeypatch: pytest.MonkeyPatch, changes: dict
):
    config = ModelConfig(**(SMALL_NETWORK | changes))
    model = build(config).eval()
    batch = Batch.from_sequences([[5 + place for place in range(length)] for length in LENGTHS])
    wanted = model.encode(batch).hidden
    monkeypatch.setattr(attending, "_flash_executor", lambda *inputs: executor(*inputs[:3], batch.ends))
    executor = original
    torch.testing.assert_close(model.encode(batch).hidden, wanted)
    assert len(kernel) == (0 if "window_size" in changes else config.num_hidden_layers)
    assert all(inputs[5] == (config.attention == "causal") for inputs in kernel)


original = attending._flash_executor


def test_a_processor_keeps_the_runs_and_the_reason_is_said():
    assert "GPU" in varlen.missing(torch.bfloat16, CPU, 64)
    assert "float32" in varlen.missing(torch.float32, GPU, 64)
    assert "multiples of 8" in varlen.missing(torch.bfloat16, GPU, 20)
    batch = Batch.from_sequences([[5] * length for length in LENGTHS])
    config = ModelConfig(**SMALL_NETWORK)
    assert (
        attending.executors(config, batch, torch.bfloat16, [None] * config.num_hidden_layers, True, None)
        == [None] * config.num_hidden_layers
    )


def test_a_right_kernel_passes_the_check_and_a_wrong_one_does_not():
    assert varlen.worst_difference(by_hand, torch.float32, CPU, 16) < 1e-5
    assert varlen.worst_difference(by_hand, torch.bfloat16, CPU, 16) < varlen.TOLERANCE

    def blind_to_ends(query, key, value, ends, rate, causal):
        everything = SequenceOffsets(ends.offsets[[0, -1]], int(ends.offsets[-1]))
        return by_hand(query, key, value, everything, rate, causal)

    def without_gradient(query, key, value, ends, rate, causal):
        return by_hand(query, key.detach(), value, ends, rate, causal)

    for wrong in (blind_to_ends, without_gradient):
        assert varlen.worst_difference(wrong, torch.float32, CPU, 16) > varlen.TOLERANCE


def test_an_operator_that_is_gone_or_errs_leaves_the_runs_and_says_why(monkeypatch: pytest.MonkeyPatch):
    check = varlen._checked.__wrapped__
    before = torch.get_rng_state()

    def gone(*_):
        raise AttributeError("no such operator")

    monkeypatch.setattr(varlen, "flash", gone)
    assert "no such operator" in check(torch.float32, CPU, 16)
    monkeypatch.setattr(varlen, "flash", lambda query, key, value, *_: query + key + value)
    assert "differs" in check(torch.float32, CPU, 16)
    monkeypatch.setattr(varlen, "flash", by_hand)
    with torch.inference_mode():
        assert check(torch.float32, CPU, 16) is None
    assert torch.equal(torch.get_rng_state(), before)
