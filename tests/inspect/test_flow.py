"""Rollout and flow: laws, numbers by hand, and another way to solve the same network."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from inference.samples import tiny
from looked_at import TEXT, network, translator
from maskwright.core.errors import ConfigError, InputError
from maskwright.inspect import AttentionMap, attention, flow, rollout
from maskwright.inspect.flow import mixed

TOKENS = attention(tiny(), "cat").main.queries  # three tokens


def map_of(weights: np.ndarray) -> AttentionMap:
    """A map of one head a layer. weights: [layers, 3, 3]."""
    layers = tuple(range(1, len(weights) + 1))
    return AttentionMap("self", TOKENS, TOKENS, weights[:, None].astype(np.float32), layers, (1,))


def drawn(layers: int, seed: int) -> AttentionMap:
    """Random rows that sum to 1."""
    weights = np.random.default_rng(seed).dirichlet([0.5] * 3, size=(layers, 3))
    return map_of(weights)


def test_rollout_by_hand():
    """Two layers of W = [[0, 1, 0], [0, 0, 1], [0, 0, 1]], mixed half with the identity."""
    one = np.array([[0, 1, 0], [0, 0, 1], [0, 0, 1]])
    found = rollout(map_of(np.stack([one, one])))
    np.testing.assert_allclose(found[0], [[0.5, 0.5, 0], [0, 0.5, 0.5], [0, 0, 1]])
    np.testing.assert_allclose(found[1], [[0.25, 0.5, 0.25], [0, 0.25, 0.75], [0, 0, 1]])


def test_flow_by_hand():
    """The same network: from token 0 two pipes of a half leave; token 1 of the input gets a half over each way."""
    one = np.array([[0, 1, 0], [0, 0, 1], [0, 0, 1]])
    found = flow(map_of(np.stack([one, one])))
    np.testing.assert_allclose(found, [[0.5, 1.0, 0.5], [0, 0.5, 1.0], [0, 0, 1]], atol=1e-8)


@settings(max_examples=25)
@given(st.integers(1, 4), st.integers(0, 1000))
def test_a_flow_is_that_of_a_linear_program(layers: int, seed: int):
    map = drawn(layers, seed)
    found, graphs = flow(map), mixed(map)
    for top in range(3):
        for sink in range(3):
            assert found[top, sink] == pytest.approx(by_program(graphs, top, sink), abs=1e-6)


def by_program(graphs: np.ndarray, top: int, sink: int) -> float:
    """The most that reaches `sink`: variables are the pipes, what enters a node in between leaves it."""
    layers = len(graphs)
    pipes = [(layer, i, j) for layer in range(layers) for i in range(3) for j in range(3)]
    bounds = [(0, graphs[pipe] if pipe[0] < layers - 1 or pipe[1] == top else 0) for pipe in pipes]
    kept = [
        [(1 if (p[0], p[1]) == (layer, node) else -1 if (p[0], p[2]) == (layer + 1, node) else 0) for p in pipes]
        for layer in range(layers - 1)
        for node in range(3)
    ]
    gain = [-1 if pipe[0] == 0 and pipe[2] == sink else 0 for pipe in pipes]
    solved = linprog(gain, A_eq=kept or None, b_eq=[0] * len(kept) if kept else None, bounds=bounds)
    return float(-solved.fun)


def test_a_flow_is_at_least_the_best_single_path_and_at_most_what_leaves():
    map = attention(tiny(), TEXT).main
    found, graphs = flow(map, [3]), mixed(map)
    best = np.zeros(len(map.queries))
    best[3] = 1
    for graph in graphs[::-1]:
        best = np.minimum(best[:, None], graph).max(axis=0)
    assert (found[0] >= best - 1e-8).all() and (found <= 1 + 1e-8).all()


def test_a_left_to_right_model_carries_nothing_from_later_tokens():
    map = attention(network("GPT-2"), TEXT).main
    assert (np.triu(rollout(map)[-1], 1) == 0).all() and (np.triu(flow(map), 1) == 0).all()


def test_without_a_residual_rollout_is_the_product_of_the_mean_weights():
    map = attention(tiny(), TEXT).main
    means = map.weights.astype(np.float64).mean(axis=1)
    expected = means[3] @ means[2] @ means[1] @ means[0]
    np.testing.assert_allclose(rollout(map, residual=0)[-1], expected, atol=1e-6)


def test_what_has_no_flow_is_refused_in_a_sentence():
    with pytest.raises(InputError, match="require self-attention"):
        rollout(attention(translator(), TEXT, target="rain").of("cross"))
    with pytest.raises(ConfigError, match="below 1"):
        rollout(drawn(1, 1), residual=1)
    long = attention(network("BERT"), " ".join(["cat"] * 100)).main
    with pytest.raises(InputError, match="choose a token"):
        flow(long)
    assert flow(long.select([1]), [5]).shape == (1, len(long.keys))
