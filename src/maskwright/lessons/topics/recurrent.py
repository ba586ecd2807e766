"""Recurrent networks: gates, bidirectional layers, carried state, vanishing gradients."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ...core.randomness import generator
from ...inspect.gradients import fading
from ...models.build import build
from ...models.presets import preset
from ...nn.recurrent import (
    CellWeights,
    PackedRecurrence,
    RecurrentLayer,
    RecurrentStack,
    elman_step,
    fill_recurrent,
    gru_step,
    lstm_step,
    unroll,
)
from ...report import Grid
from ...report.charts import Chart, Series
from ..recorder import LessonRecorder, tiny, tolerance


def lesson_lstm_gates(
    record: LessonRecorder, forget: float, insert: float, output: float, x: float, state: float
) -> None:
    column = torch.tensor([[0.0], [0.0], [1.0], [0.0]], dtype=torch.float64)  # of i, f, g, o
    none = torch.zeros(4, dtype=torch.float64)
    weights = CellWeights(column, torch.zeros(4, 1, dtype=torch.float64), none, none)
    one = torch.ones(1, 1, dtype=torch.float64)
    biases = torch.tensor([insert, forget, 0.0, output], dtype=torch.float64)
    own = CellWeights(column, torch.zeros(4, 1, dtype=torch.float64), biases, none)
    h, c = lstm_step(own, x * one, (0 * one, state * one))
    i, f, o = (1 / (1 + math.exp(-bias)) for bias in (insert, forget, output))
    memory = f * state + i * math.tanh(x)
    gates = f"i = {i:.2f}, f = {f:.2f}, o = {o:.2f}"
    record.near(f"{gates}, C̃ = tanh({x:g}): C = f·{state:g} + i·C̃", memory, float(c), of=[state, x], law=True)
    record.near("h = o · tanh(C)", o * math.tanh(memory), float(h), law=True)
    three = CellWeights(column[1:], weights.U[1:], none[1:], none[1:])  # r, z, n
    (gru,) = gru_step(
        CellWeights(column[[0, 1, 3]] + torch.tensor([[0.0], [0.0], [1.0]]), three.U, none[1:], none[1:]), one, (one,)
    )
    record.near("a GRU with z = 0.5, n = tanh(1), h = 1", 0.5 * math.tanh(1) + 0.5, float(gru), law=True)
    layer = _layer("lstm", 3, 4)
    tokens = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    fast, _ = layer(tokens, PackedRecurrence([5]))
    blank = torch.zeros(1, 4)
    slow, _ = unroll("lstm", layer.weights(), tokens[:, None], (blank, blank))
    record.same("five steps by the formulas and by the kernel", "the same", fast, slow[:, 0])
    open_gate = CellWeights(weights.W, weights.U, torch.tensor([-9.0, 9.0, 0.0, 0.0], dtype=torch.float64), none)
    cells = {"forget gate open, input gate closed": open_gate, "both half open": weights}
    if record.is_own:
        cells[f"forget gate {f:.2f}"] = own
    lines = {}
    for name, cell in cells.items():
        carried: tuple[Any, ...] = (0 * one, one)
        kept: list[float] = []
        for _ in range(20):
            carried = lstm_step(cell, 0 * one, carried)
            kept.append(float(carried[1]))
        lines[name] = kept
    record.charts(
        Chart(
            "Cell state after N steps, initially 1",
            [Series(name, list(range(1, 21)), kept) for name, kept in lines.items()],
        )
    )
    held = lines["forget gate open, input gate closed"][-1]
    record.answer(
        f"Yes: with f at σ(9), the cell state is still {held:.3f} after 20 steps; with half-open gates it is "
        f"{tiny(lines['both half open'][-1])}. This is why a new LSTM is initialized with open forget gates."
    )


def _layer(cell: Any, inputs: int, size: int, side: Any = "left") -> Any:
    layer, source = RecurrentLayer(cell, inputs, size, side), torch.Generator().manual_seed(1)
    for name, parameter in layer.kernel.named_parameters():
        fill_recurrent(layer.kernel, name, parameter, source)
    return layer


def lesson_two_directions(record: LessonRecorder, changed: int) -> None:
    layer = _layer("lstm", 3, 4, "both")
    tokens = 6
    inputs = torch.randn(tokens, 3, generator=torch.Generator().manual_seed(0))
    before, _ = layer(inputs, PackedRecurrence([tokens]))
    record.equal("output width, cells of 4", 8, before.shape[1], law=True)
    other = inputs.clone()
    other[changed - 1] += 1
    moved = (layer(other, PackedRecurrence([tokens]))[0] - before).abs().detach()
    noise = tolerance(before)
    left, right = moved[:, :4].amax(dim=1) > noise, moved[:, 4:].amax(dim=1) > noise
    for name, half, places in (
        ("forward", left, range(changed, tokens + 1)),
        ("backward", right, range(1, changed + 1)),
    ):
        found = ", ".join(str(n + 1) for n in range(tokens) if half[n])
        record.equal(f"tokens where the {name} half changes", ", ".join(map(str, places)), found, law=True)
    blank = torch.zeros(1, 4)
    by_formula, _ = unroll("lstm", layer.weights(0), inputs[:, None], (blank, blank))
    record.same("the forward half, by the formulas", "concatenated", by_formula[:, 0], before[:, :4], said="differs by")
    record.show(
        Grid(
            [f"token {n + 1}" for n in range(tokens)],
            [*(f"→{n}" for n in range(4)), *(f"←{n}" for n in range(4))],
            moved.tolist(),
            f"Changes of the output when token {changed} changes",
        )
    )
    record.answer(
        f"No: the backward half at token 1 has processed all {tokens} tokens, including those to generate. A "
        "bidirectional network is for tagging and classification; this is why ELMo keeps its two directions separate."
    )


def lesson_carried_memory(record: LessonRecorder, boundary: int) -> None:
    stack = RecurrentStack("rnn", 3, 8, 2)
    stack.initialize(torch.Generator().manual_seed(2))
    tokens = torch.randn(12, 3, generator=torch.Generator().manual_seed(0))
    whole = stack(tokens, [12]).last.detach()
    first, rest = stack(tokens[:boundary], [boundary]), 12 - boundary
    carried = stack(tokens[boundary:], [rest], first.states).last.detach()
    reset = stack(tokens[boundary:], [rest]).last.detach()
    record.same("two segments with carried state, and one sequence", "infinite memory", carried, whole[boundary:])
    lost = (reset - whole[boundary:]).abs().amax(dim=1)
    record.holds(
        "with a reset state", "different outputs", f"differs by {float(lost.max()):.2f}", float(lost.max()) > 0.05
    )
    record.equal("layers with a state", 2, len(first.states), law=True)
    record.bars(
        "Difference after the boundary, if the state is reset",
        [(f"token {boundary + 1 + n}", float(one)) for n, one in enumerate(lost)],
    )
    ratio = float(lost[0] / lost[-1])
    record.answer(
        f"The effect decays: the first token after the boundary differs by {float(lost[0]):.2f}, the last by "
        f"{float(lost[-1]):.3f}, {ratio:.0f} times less. Carrying the state costs nothing, but no gradient crosses the "
        "boundary: truncated backpropagation."
    )


def lesson_fading_gradients(record: LessonRecorder, distance: int, layers: int) -> None:
    ids = generator(0, "lesson text").integers(5, 60, 400).tolist()
    found = {}
    for name in ("rnn-small", "gru-small", "lstm-small"):
        network = preset(name, vocab_size=60, hidden_size=32, num_hidden_layers=layers)
        found[name] = fading(build(network, "clm", seed=1), ids, distance, name)
    rnn, lstm = found["rnn-small"], found["lstm-small"]
    for name, one in found.items():
        record.near(f"{name}: at distance 1", 1.0, one.norms[0], digits=1, law=True)
    product, gradient = _chain()
    record.same("∂L⁴/∂V¹ = ∂L⁴/∂V³ · ∂V³/∂V² · ∂V²/∂V¹", "the chain rule", product, gradient)
    record.holds(
        f"RNN and LSTM at distance {distance}",
        "the RNN's vanishes first",
        f"{tiny(rnn.norms[-1])} and {tiny(lstm.norms[-1])}",
        rnn.norms[-1] < lstm.norms[-1] / 5,
    )
    record.holds(
        "factor per step",
        "below 1",
        f"RNN {rnn.factor:.2f}, LSTM {lstm.factor:.2f}",
        0 < rnn.factor < lstm.factor < 1.05,
    )
    x = [float(n) for n in range(1, distance + 1)]
    record.charts(
        Chart(
            "Gradient of a loss by distance",
            [Series(name, x, list(one.norms), smooth=False) for name, one in found.items()],
            x_label="tokens back",
            log_y=True,
        )
    )
    half = "never" if lstm.half is None else f"after {lstm.half:.0f} tokens"
    record.answer(
        f"The RNN's gradient is multiplied by {rnn.factor:.2f} per token, so {distance} tokens back it is "
        f"{tiny(rnn.norms[-1])}. The LSTM's is halved {half}, because it adds to its cell state instead of multiplying "
        "it."
    )


def _chain() -> tuple[Tensor, Tensor]:
    """∂L⁴/∂V¹ of an Elman cell with 4 units: one factor diag(1 − V²) U per step, and by backpropagation."""
    draw = torch.Generator().manual_seed(0)
    inputs, hidden, b, c, tokens, first = (
        torch.randn(*shape, generator=draw, dtype=torch.float64)
        for shape in ((4, 3), (4, 4), (4,), (4,), (3, 3), (1, 4))
    )
    weights = CellWeights(inputs, hidden, b, c)

    def step(token: int, state: Tensor) -> Tensor:
        return elman_step(weights, tokens[token : token + 1], (state,))[0]

    states = [first.requires_grad_(True)]  # V¹ to V⁴: float [1, 4] each
    for token in range(3):
        states.append(step(token, states[-1]))
    (gradient,) = torch.autograd.grad(states[-1].square().sum(), first)  # L⁴ = |V⁴|²
    product = 2 * states[-1].detach()  # ∂L⁴/∂V⁴
    for state in reversed(states[1:]):
        slope = 1 - state.detach().square()  # of tanh
        product = (product * slope) @ hidden  # [1, 4]
    return product, gradient
