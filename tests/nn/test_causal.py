"""Causal attention: no token sees a later one, whoever computes it."""

from __future__ import annotations

import pytest
import torch

from maskwright.nn.attention import attend
from maskwright.nn.positions import RelativeBias, RelativeVectors, attend_relative
from nn.packs import draw, filled, places_with_holes, runs_of

HEADS, HEAD_DIM = 2, 4
HIDDEN = HEADS * HEAD_DIM
LENGTHS = [1, 5, 5, 9, 3]


def by_hand(qkv):
    """Causal attention of one sequence, one query at a time."""
    query, key, value = (part.view(-1, HEADS, HEAD_DIM) for part in qkv.split(HIDDEN, dim=1))
    rows = []
    for place in range(len(qkv)):
        scores = torch.einsum("hd,nhd->hn", query[place], key[: place + 1]) / HEAD_DIM**0.5
        rows.append(torch.einsum("hn,nhd->hd", scores.softmax(-1), value[: place + 1]).reshape(-1))
    return torch.stack(rows)


@pytest.mark.parametrize("fused", [True, False])
def test_each_query_sees_itself_and_what_came_before(fused):
    qkv = draw(sum(LENGTHS), 3 * HIDDEN)
    context, _ = attend(qkv, runs_of(LENGTHS), HEADS, fused=fused, causal=True)
    expected = torch.cat([by_hand(part) for part in qkv.split(LENGTHS)])
    torch.testing.assert_close(context, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("positions", [None, places_with_holes(LENGTHS, 20)], ids=["side by side", "holes"])
@pytest.mark.parametrize(
    "relative",
    [RelativeVectors(3, HEAD_DIM, "key_value"), RelativeVectors(3, HEAD_DIM, "key_query"), RelativeBias(32, HEADS)],
    ids=["key_value", "key_query", "bias"],
)
def test_with_relative_positions_later_tokens_change_nothing_either(relative, positions):
    relative = filled(relative)
    qkv = draw(sum(LENGTHS), 3 * HIDDEN)
    changed = qkv.clone()
    changed[sum(LENGTHS[:3]) + 4 :] = draw(sum(LENGTHS[3:]) - 4, 3 * HIDDEN, seed=5)  # from inside the fourth sequence
    options = {"positions": positions, "causal": True}
    one, other = (attend_relative(x, runs_of(LENGTHS), HEADS, relative, **options)[0] for x in (qkv, changed))
    assert torch.equal(one[: sum(LENGTHS[:3]) + 4], other[: sum(LENGTHS[:3]) + 4])
    assert not torch.equal(one, other)
