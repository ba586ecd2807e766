"""Formulas of the recurrent cells: the hidden state after one more token.

With x the token vector, h the previous hidden state, and * the element-wise product:

    rnn   h' = tanh(W x + U h + b)                                                        (Elman 1990)
    gru   r = sigmoid(W_r x + U_r h + b_r),  z = sigmoid(W_z x + U_z h + b_z)
          n = tanh(W_n x + b_n + r * (U_n h + c_n)),  h' = (1 - z) * n + z * h            (Cho et al. 2014)
    lstm  i, f, o = sigmoid(W x + U h + b), separate weights,  g = tanh(W_g x + U_g h + b_g)
          c' = f * c + i * g,  h' = o * tanh(c')                     (Hochreiter and Schmidhuber 1997; Gers et al. 2000)

These are a reference for readers and tests; `nn/recurrent.py` runs torch's fused kernels, which give the same results.
The gates are stacked in one matrix in torch's order: r, z, n of a GRU and i, f, g, o of an LSTM.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

State = tuple[Tensor, ...]  # (h,), or (h, c) of an LSTM: float [sequences, size] each


@dataclass(frozen=True)
class CellWeights:
    """W: float [gates * size, input]; U: float [gates * size, size]; b, c: their biases, [gates * size]."""

    W: Tensor
    U: Tensor
    b: Tensor
    c: Tensor

    def parts(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Returns W, U, b, c in torch's order."""
        return self.W, self.U, self.b, self.c


Step = Callable[[CellWeights, Tensor, State], State]


def elman_step(weights: CellWeights, x: Tensor, state: State) -> State:
    """Elman cell: one token of each sequence. x: float [sequences, input]. Returns the new (h,)."""
    (h,) = state
    return (torch.tanh(F.linear(x, weights.W, weights.b) + F.linear(h, weights.U, weights.c)),)


def gru_step(weights: CellWeights, x: Tensor, state: State) -> State:
    """GRU cell: one token of each sequence. x: float [sequences, input]. Returns the new (h,)."""
    (h,) = state
    new_r, new_z, new_n = F.linear(x, weights.W, weights.b).chunk(3, dim=-1)
    old_r, old_z, old_n = F.linear(h, weights.U, weights.c).chunk(3, dim=-1)
    r, z = torch.sigmoid(new_r + old_r), torch.sigmoid(new_z + old_z)
    n = torch.tanh(new_n + r * old_n)
    return ((1 - z) * n + z * h,)


def lstm_step(weights: CellWeights, x: Tensor, state: State) -> State:
    """LSTM cell: one token of each sequence. x: float [sequences, input]. Returns the new (h, c)."""
    h, c = state
    gates = F.linear(x, weights.W, weights.b) + F.linear(h, weights.U, weights.c)
    i, f, g, o = gates.chunk(4, dim=-1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


@dataclass(frozen=True)
class Cell:
    """step: formula; num_gates: stacked matrices; num_states: tensors of the state."""

    step: Step
    num_gates: int
    num_states: int


CELLS = {"rnn": Cell(elman_step, 1, 1), "gru": Cell(gru_step, 3, 1), "lstm": Cell(lstm_step, 4, 2)}


def unroll(name: str, weights: CellWeights, inputs: Tensor, state: State) -> tuple[Tensor, State]:
    """Runs a cell over sequences, token by token. inputs: float [length, sequences, input].

    Returns h after each token, float [length, sequences, size], and the last state.
    """
    step, outputs = CELLS[name].step, []
    for x in inputs:
        state = step(weights, x, state)
        outputs.append(state[0])
    return torch.stack(outputs), state
