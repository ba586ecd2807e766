"""Attention rollout and attention flow (Abnar and Zuidema 2020).

Each layer is a graph between tokens whose edge weights are the mean attention over heads, mixed with the residual
connection: A = 0.5 W + 0.5 I (section 3). Rollout is the product of these matrices (equation 1). Flow is the maximum
flow from a token at the top layer to an input token with these edge capacities (section 3).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..core.config import check
from ..core.errors import InputError
from .attention import AttentionMap

RESIDUAL = 0.5
UNIT = 1 << 30  # integer capacity of 1.0: flows are exact to about 1e-8
MAX_FLOWS = 4096  # maximum-flow problems per call, a few milliseconds each


def mixed(map: AttentionMap, residual: float = RESIDUAL) -> np.ndarray:
    """Return the mean attention over heads mixed with the residual: float64 [layers, tokens, tokens], rows sum to 1.

    residual: weight of the residual connection, in [0, 1). Raises ConfigError, and InputError for cross-attention,
    whose queries and keys are different tokens.
    """
    check(0 <= residual < 1, f"residual is {residual}; it must be at least 0 and below 1.")
    if map.kind == "cross":
        raise InputError("Rollout and flow require self-attention: use encoder or decoder attention.")
    weights = map.weights.astype(np.float64).mean(axis=1)  # [layers, tokens, tokens]
    both = (1 - residual) * weights + residual * np.eye(weights.shape[-1])
    return both / both.sum(axis=-1, keepdims=True)


def rollout(map: AttentionMap, residual: float = RESIDUAL) -> np.ndarray:
    """Return the attention rollout from each token at a layer to each input: float64 [layers, tokens, tokens].

    Row i of layer l is a distribution over the inputs. Arguments as in `mixed`.
    """
    graphs = mixed(map, residual)
    found = [graphs[0]]
    for graph in graphs[1:]:
        found.append(graph @ found[-1])
    return np.stack(found)


def flow(map: AttentionMap, tokens: Sequence[int] | None = None, residual: float = RESIDUAL) -> np.ndarray:
    """Return the maximum flow from tokens at the top layer to each input: float64 [chosen, tokens], at most 1.

    tokens: indices at the top layer, None for all. Exact up to rounding of capacities to 2^-30. Raises InputError for
    more than MAX_FLOWS problems.
    """
    graphs = mixed(map, residual)
    layers, length = graphs.shape[:2]
    chosen = range(length) if tokens is None else tokens
    if len(chosen) * length > MAX_FLOWS:
        raise InputError(
            f"Flow for {len(chosen)} of {length} tokens requires {len(chosen) * length:,} maximum-flow problems (at "
            f"most {MAX_FLOWS:,}): choose a token, or use rollout."
        )
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_flow

    nodes = (layers + 1) * length  # node layer * length + token; layer 0 is the input
    index = np.arange(length)
    froms = [np.repeat((layer + 1) * length + index, length) for layer in range(layers)]
    tos = [np.tile(layer * length + index, length) for layer in range(layers)]
    capacities = np.rint(graphs * UNIT).astype(np.int32).reshape(-1)
    network = csr_array((capacities, (np.concatenate(froms), np.concatenate(tos))), shape=(nodes, nodes))
    network.eliminate_zeros()
    top = layers * length
    found = [[maximum_flow(network, top + token, sink).flow_value / UNIT for sink in range(length)] for token in chosen]
    return np.array(found)
