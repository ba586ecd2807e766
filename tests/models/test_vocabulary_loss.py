"""The loss over a whole vocabulary in parts: the numbers of the plain one, and never all scores at once."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from maskwright.models.pretraining_heads import _first_is_right, _right_of_all, vocabulary_loss

VOCAB, SIZE, POSITIONS = 37, 8, 23


def drawn(dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    draws = torch.Generator().manual_seed(5)
    vectors = torch.randn(POSITIONS, SIZE, generator=draws).to(dtype).requires_grad_()
    table, bias = torch.randn(VOCAB, SIZE, generator=draws), torch.randn(VOCAB, generator=draws)
    if dtype == torch.float64:
        table, bias = table.double(), bias.double()
    return vectors, table.requires_grad_(), bias.requires_grad_(), torch.randint(VOCAB, (POSITIONS,), generator=draws)


def plain(vectors: torch.Tensor, table: torch.Tensor, bias: torch.Tensor | None, labels: torch.Tensor, smooth: float):
    scores = F.linear(vectors, table.to(vectors.dtype), None if bias is None else bias.to(vectors.dtype))
    wide = scores if scores.dtype == torch.float64 else scores.float()
    loss = F.cross_entropy(wide, labels, reduction="sum", label_smoothing=smooth)
    return loss, (scores.argmax(-1) == labels).sum()


@pytest.mark.parametrize(
    ("most", "smooth", "has_bias"), [(1, 0.1, True), (5 * VOCAB, 0.0, False), (5 * VOCAB, 0.1, True)]
)
@pytest.mark.parametrize(("dtype", "near"), [(torch.float64, 1e-12), (torch.float32, 1e-5), (torch.bfloat16, 2e-2)])
def test_loss_hits_and_gradients_are_those_of_the_plain_way(
    dtype: torch.dtype, near: float, most: int, smooth: float, has_bias: bool
):
    found = []
    for is_plain in (False, True):
        vectors, table, bias, labels = drawn(dtype)
        inputs = (vectors, table, bias if has_bias else None, labels)
        loss, right = plain(*inputs, smooth) if is_plain else vocabulary_loss(*inputs, most, smooth)[:2]
        (loss * 0.25).backward()
        found.append((loss.detach(), right, vectors.grad, table.grad, *([bias.grad] if has_bias else [])))
        assert has_bias or bias.grad is None
    (loss, right, *gradients), (plain_loss, plain_right, *plain_gradients) = found
    assert loss.dtype == plain_loss.dtype and int(right) == int(plain_right)
    torch.testing.assert_close(loss, plain_loss, rtol=near, atol=near)
    for one, other in zip(gradients, plain_gradients, strict=True):
        assert one.dtype == other.dtype
        assert float((one - other).float().norm() / other.float().norm()) < near


@pytest.mark.parametrize("is_trained", [True, False])
@pytest.mark.parametrize("most", [3 * VOCAB, 1000 * VOCAB])
def test_only_scored_labels_count_as_right_and_in_their_loss(is_trained: bool, most: int):
    vectors, table, bias, labels = drawn(torch.float32)
    labels[::2] = (vectors @ table.T + bias).argmax(dim=-1)[::2]  # so that some are right
    is_scored = torch.arange(POSITIONS) % 3 > 0
    with torch.set_grad_enabled(is_trained):
        loss, right, scored = vocabulary_loss(vectors, table, bias, labels, most, 0.1, is_scored)
        same, _, whole = vocabulary_loss(vectors, table, bias, labels, most, 0.1)
    wanted, wanted_right = plain(vectors[is_scored], table, bias, labels[is_scored], 0.0)
    assert torch.equal(loss, same) and 0 < int(right) == int(wanted_right)
    torch.testing.assert_close(scored, wanted.detach(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(whole, plain(vectors, table, bias, labels, 0.0)[0].detach(), rtol=1e-5, atol=1e-5)
    assert not scored.requires_grad


def test_the_count_of_a_gpu_is_that_of_a_cpu():
    """With ties between highest scores, and with rows that are not scored."""
    draws = torch.Generator().manual_seed(0)
    scores = torch.randint(0, 3, (200, 4), generator=draws).float()
    labels = torch.randint(0, 4, (200,), generator=draws)
    highest, at_label = scores.amax(dim=-1, keepdim=True), scores.gather(1, labels.unsqueeze(1))
    for is_scored in (None, torch.rand(200, generator=draws) < 0.5):
        found = _right_of_all(scores, labels, is_scored)
        assert 0 < found < 200 and found == _first_is_right(scores, highest, at_label, labels, is_scored)


def test_scores_never_exist_whole(monkeypatch: pytest.MonkeyPatch):
    sizes = []
    original = F.linear
    monkeypatch.setattr(F, "linear", lambda *inputs: sizes.append(len(inputs[0])) or original(*inputs))
    vocabulary_loss(*drawn(), most=5 * VOCAB)
    assert max(sizes) <= 5 and sum(sizes) == POSITIONS


def test_a_second_gradient_is_refused():
    loss, _, _ = vocabulary_loss(*drawn())
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="once"):
        loss.backward()
