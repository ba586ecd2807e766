"""Recurrent cells, written once as their formulas: what is remembered after one more token.

With x the token's vector, h what was remembered, and * element by element:

    rnn   h' = tanh(W x + U h + b)                                                        (Elman 1990)
    gru   r = sigmoid(W_r x + U_r h + b_r),  z = sigmoid(W_z x + U_z h + b_z)
          n = tanh(W_n x + b_n + r * (U_n h + c_n)),  h' = (1 - z) * n + z * h            (Cho et al. 2014)
    lstm  i, f, o = sigmoid(W x + U h + b) of their own,  g = tanh(W_g x + U_g h + b_g)
          c' = f * c + i * g,  h' = o * tanh(c')                     (Hochreiter and Schmidhuber 1997; Gers et al. 2000)

These are for reading and for tests: `nn/recurrent.py` runs torch's fused kernels, which give the same numbers. Gates
stand under each other in one matrix, in torch's order: r, z, n of a GRU and i, f, g, o of an LSTM.
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
    """W: float [gates * size, input]; U: float [gates * size, size]; b, c: the biases of each, [gates * size]."""

    W: Tensor
    U: Tensor
    b: Tensor
    c: Tensor


Step = Callable[[CellWeights, Tensor, State], State]


def elman_step(weights: CellWeights, x: Tensor, state: State) -> State:
    """One token of each sequence through an Elman cell. x: float [sequences, input]. Returns the new (h,)."""
    (h,) = state
    return (torch.tanh(F.linear(x, weights.W, weights.b) + F.linear(h, weights.U, weights.c)),)


def gru_step(weights: CellWeights, x: Tensor, state: State) -> State:
    """The same through a GRU. x: float [sequences, input]. Returns the new (h,)."""
    (h,) = state
    new_r, new_z, new_n = F.linear(x, weights.W, weights.b).chunk(3, dim=-1)
    old_r, old_z, old_n = F.linear(h, weights.U, weights.c).chunk(3, dim=-1)
    r, z = torch.sigmoid(new_r + old_r), torch.sigmoid(new_z + old_z)
    n = torch.tanh(new_n + r * old_n)
    return ((1 - z) * n + z * h,)


def lstm_step(weights: CellWeights, x: Tensor, state: State) -> State:
    """The same through an LSTM. x: float [sequences, input]. Returns the new (h, c)."""
    h, c = state
    gates = F.linear(x, weights.W, weights.b) + F.linear(h, weights.U, weights.c)
    i, f, g, o = gates.chunk(4, dim=-1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


@dataclass(frozen=True)
class Cell:
    """step: its formula; num_gates: parts of its matrices; num_states: tensors that it remembers."""

    step: Step
    num_gates: int
    num_states: int


CELLS = {"rnn": Cell(elman_step, 1, 1), "gru": Cell(gru_step, 3, 1), "lstm": Cell(lstm_step, 4, 2)}


def unroll(name: str, weights: CellWeights, inputs: Tensor, state: State) -> tuple[Tensor, State]:
    """Read sequences token by token. inputs: float [length, sequences, input].

    Returns what h was after each token, float [length, sequences, size], and the last state.
    """
    step, outputs = CELLS[name].step, []
    for x in inputs:
        state = step(weights, x, state)
        outputs.append(state[0])
    return torch.stack(outputs), state
