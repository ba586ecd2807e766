"""How far attention carries a token through all layers: rollout and flow (Abnar and Zuidema 2020).

Each layer is a graph from tokens to tokens, whose edges are the weights of attention, in the mean of its heads, mixed
with the residual connection: A = 0.5 W + 0.5 I (section 3). Rollout multiplies the graphs (equation 1): the share of
all paths. Flow is the most that a network of pipes of these capacities carries from a token at the top to one at the
bottom (section 3, "attention flow").
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..core.config import check
from ..core.errors import InputError
from .attention import AttentionMap

RESIDUAL = 0.5
UNIT = 1 << 30  # capacities are whole numbers of this part: a flow is exact to one in 10^8
MOST_FLOWS = 4096  # of one call: a few milliseconds each


def mixed(map: AttentionMap, residual: float = RESIDUAL) -> np.ndarray:
    """The graph of each layer: mean over the heads, mixed with the residual connection: float64 [layers, tokens,
    tokens], rows sum to 1.

    residual: the part of the residual connection, from 0 to below 1. Raises ConfigError, and InputError for
    cross-attention, whose queries and keys are different tokens.
    """
    check(0 <= residual < 1, f"The part of the residual connection is {residual}; it takes 0 to below 1.")
    if map.kind == "cross":
        raise InputError("Rollout and flow follow a token through its own text: take encoder or decoder attention.")
    weights = map.weights.astype(np.float64).mean(axis=1)  # [layers, tokens, tokens]
    both = (1 - residual) * weights + residual * np.eye(weights.shape[-1])
    return both / both.sum(axis=-1, keepdims=True)


def rollout(map: AttentionMap, residual: float = RESIDUAL) -> np.ndarray:
    """The share of paths from each token at a layer to each input token: float64 [layers, tokens, tokens].

    Row i of layer l is a distribution over the inputs. Arguments as of `mixed`.
    """
    graphs = mixed(map, residual)
    found = [graphs[0]]
    for graph in graphs[1:]:
        found.append(graph @ found[-1])
    return np.stack(found)


def flow(map: AttentionMap, tokens: Sequence[int] | None = None, residual: float = RESIDUAL) -> np.ndarray:
    """The greatest flow from tokens at the top layer to each input token: float64 [chosen, tokens], at most 1.

    tokens: indices of those at the top, None for all. Exact up to the rounding of capacities to 2^-30. Raises
    InputError where that would take too long (MOST_FLOWS).
    """
    graphs = mixed(map, residual)
    layers, length = graphs.shape[:2]
    chosen = range(length) if tokens is None else tokens
    if len(chosen) * length > MOST_FLOWS:
        raise InputError(
            f"Flow for {len(chosen)} of {length} tokens is {len(chosen) * length:,} networks to solve; at most "
            f"{MOST_FLOWS:,} are: choose a token, or take rollout."
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
