"""Rotary position embeddings (Su et al. 2021, section 3.2.2): queries and keys are rotated by their position.

Pair i of a head's dimensions is rotated by position * theta^(-2i / head_dim). The product of a rotated query and key
depends only on the difference of their positions, and nothing is added to the token embeddings. Pair i consists of
elements i and i + head_dim / 2 ("half-split", as in ModernBERT).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..core.config import check
from .attention import Executor, attend
from .runs import Run

Angles = tuple[Tensor, Tensor]  # cosine and sine, [tokens, head_dim / 2] each


def rotary_angles(
    position_ids: Tensor, head_dim: int, theta: float = 10_000.0, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor]:
    """Cosine and sine of each token's angles: [tokens, head_dim / 2] each, shared by layers of the same theta.

    position_ids: int64 [tokens]; dtype: of the hidden states. Angles are float64 for float64 and float32 for all other
    dtypes, as in published models; half precision is too coarse after a few hundred positions. Raises ConfigError for
    an odd head_dim or a theta that is not positive.
    """
    check(head_dim % 2 == 0, f"head_dim is {head_dim}; rotary positions need an even number of dimensions.")
    check(theta > 0, f"The base of rotary positions is {theta}; it must be above 0.")
    exact = torch.promote_types(dtype, torch.float32)
    exponents = torch.arange(0, head_dim, 2, dtype=exact, device=position_ids.device) / head_dim
    frequencies = 1.0 / (theta**exponents)  # [head_dim / 2]
    angles = position_ids.to(exact)[:, None] * frequencies  # [tokens, head_dim / 2]
    return angles.cos(), angles.sin()


def rotate(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotates the pairs (i, i + head_dim / 2) of `x` by the given angles.

    x: float [tokens, ..., head_dim]; cosine, sine: [tokens, head_dim / 2]; or [batch, tokens, ...], with angles
    [batch or 1, tokens, head_dim / 2]. Returns the shape and dtype of `x`; the arithmetic keeps the precision of the
    angles.
    """
    shape = (*cosine.shape[:-1], *(1,) * (x.ndim - cosine.ndim), cosine.shape[-1])
    cosine, sine = cosine.view(shape), sine.view(shape)
    first, second = x.to(cosine.dtype).chunk(2, dim=-1)
    turned = torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1)
    return turned.to(x.dtype)


def rotate_query_key(qkv: Tensor, num_heads: int, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotates the queries and keys of all heads; values stay unchanged.

    qkv: float [tokens, 3 * hidden], the queries, then keys, then values; cosine, sine: from `rotary_angles`. Returns
    float [tokens, 3 * hidden].
    """
    tokens, width = qkv.shape
    parts = qkv.view(tokens, 3, num_heads, width // (3 * num_heads))
    turned = rotate(parts[:, :2], cosine, sine)  # [tokens, 2, heads, head_dim]
    return torch.cat((turned, parts[:, 2:]), dim=1).view(tokens, width)


def attend_rotary(
    qkv: Tensor,
    runs: Sequence[Run],
    num_heads: int,
    *,
    angles: Angles,
    executor: Executor | None = None,
    dropout_probability: float = 0.0,
    want_weights: bool = False,
) -> tuple[Tensor, tuple[Tensor, ...] | None]:
    """Rotates queries and keys, then attends with `executor` (None: plain attention).

    qkv: float [tokens, 3 * hidden]. Returns context [tokens, hidden] and, if wanted, the weights of each sequence.
    """
    turned = rotate_query_key(qkv, num_heads, *angles)
    return (executor or attend)(
        turned, runs, num_heads, dropout_probability=dropout_probability, want_weights=want_weights
    )
