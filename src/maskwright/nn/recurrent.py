"""Recurrent layers over packed sequences; the result for a sequence does not depend on the others in the pack.

The formulas come first; torch's fused kernels do the arithmetic. A layer is left-to-right, right-to-left, or
bidirectional, with the outputs of both directions concatenated (Graves and Schmidhuber 2005).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from .functions import Function
from .layers import dropout

# -- Formulas of the recurrent cells: the hidden state after one more token ------------------------------------------
#
# With x the token vector, h the previous hidden state, and * the element-wise product:
#
#  rnn   h' = tanh(W x + U h + b)                                                        (Elman 1990)
#  gru   r = sigmoid(W_r x + U_r h + b_r),  z = sigmoid(W_z x + U_z h + b_z)
#        n = tanh(W_n x + b_n + r * (U_n h + c_n)),  h' = (1 - z) * n + z * h            (Cho et al. 2014)
#  lstm  i, f, o = sigmoid(W x + U h + b), separate weights,  g = tanh(W_g x + U_g h + b_g)
#        c' = f * c + i * g,  h' = o * tanh(c')                     (Hochreiter and Schmidhuber 1997; Gers et al. 2000)
#
# These are a reference for readers and tests; the layers run torch's fused kernels, which give the same
# results. The gates are stacked in one matrix in torch's order: r, z, n of a GRU and i, f, g, o of an LSTM.


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


# -- Layout of packed sequences for recurrent kernels, which process one token of every sequence per step ------------
#
# Sequences of equal length form a block without copying. Others become torch's packed sequences, longest first and
# without padding, or a zero-padded block: oneDNN's LSTM is about twice as fast on padded blocks, but also processes the
# padding, so the final states of the sequences are unavailable. In every layout, the output of a token depends on its
# own sequence only.


LEAST_FILLED = 0.4  # fraction of tokens in a padded block; below it, packed sequences are faster


class PackedRecurrence:
    """How the sequences of one pack are processed together, token by token.

    Args:
        lengths: Tokens of each sequence, which may be 0.
        pads: Allow a padded block where it is faster.

    Attributes:
        length: Common length of all sequences, None if they differ.
        pads: Whether there is padding.
        rows: int64, the sequences in kernel order; None for all of them in the original order.
        batch_sizes: Number of active rows at each step (packed sequences only).
    """

    def __init__(self, lengths: Sequence[int], device: torch.device | str = "cpu", *, pads: bool = False) -> None:
        every = np.asarray(lengths, dtype=np.int64)
        rows = np.flatnonzero(every)
        kept = every[rows]
        self.num_sequences, self.num_tokens = len(every), int(kept.sum())
        self.length = int(kept[0]) if len(kept) and (kept == kept[0]).all() else None
        self.pads = False
        self.batch_sizes: Tensor | None = None
        if self.length is None and len(kept):
            block = int(kept.max()), len(kept)  # steps, rows
            self.pads = pads and self.num_tokens >= LEAST_FILLED * block[0] * block[1]
            if self.pads:
                self._pad(kept, block, device)
            else:
                rows = rows[self._pack(kept, device)]
        whole = len(rows) == len(every) and (self.length is not None or self.pads)
        self.rows = None if whole else torch.from_numpy(rows).to(device)

    def to_kernel_layout(self, vectors: Tensor, *, from_right: bool = False) -> Tensor:
        """Converts the vectors of a pack, [tokens, size], to the kernel layout: blocks are [steps, sequences, size],
        packed sequences [tokens, size].
        """
        if self.length is not None:
            steps = vectors.view(-1, self.length, vectors.shape[1]).transpose(0, 1)
            return steps.flip(0) if from_right else steps
        if not self.num_tokens:
            return vectors
        if self.pads:
            length, rows = self._block
            arranged: Tensor = _Spread.apply(vectors, self._places[from_right], length * rows)
            return arranged.view(length, rows, vectors.shape[1])
        packed: Tensor = _Pick.apply(vectors, self._places[from_right])
        return packed

    def from_kernel_layout(self, arranged: Tensor, *, from_right: bool = False) -> Tensor:
        """The inverse of `to_kernel_layout`: float [tokens, size]."""
        if self.length is not None:
            steps = arranged.flip(0) if from_right else arranged
            return steps.transpose(0, 1).reshape(self.num_tokens, arranged.shape[2])
        if not self.num_tokens:
            return arranged
        found: Tensor
        if self.pads:
            found = _Pick.apply(arranged.flatten(0, 1), self._places[from_right])
        else:
            found = _Spread.apply(arranged, self._places[from_right], self.num_tokens)
        return found

    def turn(self, arranged: Tensor) -> Tensor:
        """Reverses each sequence of a padded block, [steps, sequences, size], within its own length."""
        turned: Tensor = _Pick.apply(arranged.flatten(0, 1), self._turned)
        return turned.view_as(arranged)

    def _pad(self, kept: np.ndarray, block: tuple[int, int], device: torch.device | str) -> None:
        """Computes the slot of each token in a padded block. kept: int64 [rows], the lengths."""
        self._block = block
        place, owner = _places_in(kept), np.repeat(np.arange(len(kept)), kept)
        from_left = place * block[1] + owner
        from_right = (np.repeat(kept, kept) - 1 - place) * block[1] + owner
        turned = np.arange(block[0] * block[1])  # padding stays in place
        turned[from_left] = from_right
        self._turned = torch.from_numpy(turned).to(device)
        self._places = [torch.from_numpy(one).to(device) for one in (from_left, from_right)]

    def _pack(self, kept: np.ndarray, device: torch.device | str) -> np.ndarray:
        """Computes the token order of packed sequences. kept: int64 [rows], the lengths. Returns the rows longest
        first: int64 [rows].
        """
        place = _places_in(kept)
        longest_first = np.argsort(-kept, kind="stable")
        rank = np.empty(len(kept), dtype=np.int64)
        rank[longest_first] = np.arange(len(kept))
        order = np.lexsort((np.repeat(rank, kept), place))
        starts = np.cumsum(kept) - kept
        turned = np.repeat(2 * starts + kept - 1, kept) - np.arange(self.num_tokens)
        self._places = [torch.from_numpy(one).to(device) for one in (order, turned[order])]
        self.batch_sizes = torch.from_numpy(np.bincount(place))
        return longest_first


def pack_whole_texts(lengths: Sequence[int], device: torch.device | str, cell: str) -> PackedRecurrence:
    """Layout of complete texts (no state is carried over), in the fastest form for this cell."""
    return PackedRecurrence(lengths, device, pads=cell == "lstm" and torch.device(device).type == "cpu")


def _places_in(lengths: np.ndarray) -> np.ndarray:
    """The position of each token in its sequence: int64 [tokens]."""
    starts = np.cumsum(lengths) - lengths
    places: np.ndarray = np.arange(lengths.sum()) - np.repeat(starts, lengths)
    return places


class _Pick(Function):
    """Selects rows of a matrix, each at most once, so its gradient is a copy; plain indexing has to accumulate."""

    @staticmethod
    def forward(context: Any, matrix: Tensor, places: Tensor) -> Tensor:
        """matrix: [rows, size]; places: int64 [picked]. Returns [picked, size]."""
        context.save_for_backward(places)
        context.number = len(matrix)
        return matrix.index_select(0, places)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """gradients: one, [picked, size]."""
        return _Spread.apply(gradients[0], context.saved_tensors[0], context.number), None


class _Spread(Function):
    """Scatters the rows of a matrix to distinct positions, with zeros between them."""

    @staticmethod
    def forward(context: Any, matrix: Tensor, places: Tensor, number: int) -> Tensor:
        """matrix: [rows, size]; places: int64 [rows]; number: rows of the result. Returns [number, size]."""
        context.save_for_backward(places)
        return matrix.new_zeros(number, matrix.shape[1]).index_copy_(0, places, matrix)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """gradients: one, [number, size]."""
        return _Pick.apply(gradients[0], context.saved_tensors[0]), None, None


CellName = Literal["rnn", "gru", "lstm"]
Side = Literal["left", "right", "both"]  # direction of a layer: from the left, from the right, bidirectional
Reads = Literal["left", "both", "apart"]  # direction of a stack
States = tuple[Tensor, ...]  # of one layer: h, and c of an LSTM, float [directions, sequences, size] each

CELL_NAMES: tuple[str, ...] = get_args(CellName)
_KERNELS: dict[str, type[nn.RNN | nn.GRU | nn.LSTM]] = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}
_STEPS: dict[str, Callable[..., Any]] = {"rnn": torch.rnn_tanh_cell, "gru": torch.gru_cell, "lstm": torch.lstm_cell}
_READS: dict[str, Callable[..., Any]] = {"rnn": torch.rnn_tanh, "gru": torch.gru, "lstm": torch.lstm}


class RecurrentLayer(nn.Module):
    """One recurrent layer.

    cell: one of CELL_NAMES; input_size: size of a token vector; size: hidden size; side: direction. Parameters are not
    initialized here but by `fill_recurrent`. Products run in their dtype.
    """

    def __init__(self, cell: CellName, input_size: int, size: int, side: Side = "left") -> None:
        super().__init__()
        # Nothing is filled on "meta", so building a layer does not use torch's global generator.
        kernel = _KERNELS[cell](input_size, size, bidirectional=side == "both", device="meta")
        home = torch.get_default_device()
        self.kernel: nn.RNNBase = kernel if home.type == "meta" else kernel.to_empty(device=home)
        self.cell, self.size, self.side = cell, size, side
        self.num_directions = 2 if side == "both" else 1
        self.output_size = self.num_directions * size

    def forward(
        self, vectors: Tensor, reading: PackedRecurrence, states: States | None = None
    ) -> tuple[Tensor, States]:
        """Processes every sequence of a pack.

        vectors: float [tokens, input_size], concatenated sequences; states: initial states, None for zeros. Returns
        float [tokens, output_size] and the final states; a sequence without tokens keeps its state. Returns () for the
        states of a padded block, where they are unavailable.
        """
        from_right = self.side == "right"
        outputs, states = self.read(reading.to_kernel_layout(vectors, from_right=from_right), reading, states)
        return reading.from_kernel_layout(outputs, from_right=from_right), states

    def read(self, arranged: Tensor, reading: PackedRecurrence, states: States | None = None) -> tuple[Tensor, States]:
        """The same for vectors in the kernel layout, so that stacked layers need no conversion.

        arranged: [..., input_size], in the layout for this layer's side. Returns [..., output_size], and the states.
        """
        dtype = arranged.dtype
        arranged = arranged.to(self.weights().W.dtype)
        if states is None:
            states = self.blank(reading.num_sequences, arranged)
        if not reading.num_tokens:
            return arranged.new_zeros(0, self.output_size).to(dtype), states
        rows = reading.rows
        own = tuple((state if rows is None else state[:, rows]).contiguous() for state in states)
        if reading.pads:
            return self._read_padded(arranged, reading, own).to(dtype), ()
        before = own if len(own) == 2 else own[0]
        if reading.length is not None:
            outputs, after = self.kernel(arranged, before)
        else:
            packed, after = self.kernel(PackedSequence(arranged, reading.batch_sizes), before)
            outputs = packed.data
        after = after if isinstance(after, tuple) else (after,)
        if rows is not None:
            after = tuple(old.index_copy(1, rows, new) for old, new in zip(states, after, strict=True))
        return outputs.to(dtype), after

    def blank(self, num_sequences: int, like: Tensor) -> States:
        """Zero states [directions, num_sequences, size] in the dtype and device of `like`, [...]."""
        shape = (self.num_directions, num_sequences, self.size)
        return tuple(like.new_zeros(shape) for _ in range(CELLS[self.cell].num_states))

    def step(self, vectors: Tensor, states: States) -> States:
        """Processes one more token of each sequence, float [sequences, input_size]; returns the new states.

        states: each float [1, sequences, size], like the results. Only for unidirectional layers.
        """
        own = states[0][0] if len(states) == 1 else [state[0] for state in states]
        after = _STEPS[self.cell](vectors, own, *self.weights().parts())
        return tuple(state.unsqueeze(0) for state in (after if isinstance(after, tuple) else (after,)))

    def weights(self, direction: int = 0) -> CellWeights:
        """Returns the matrices and biases of one direction."""
        end = "_reverse" if direction else ""
        names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
        return CellWeights(*(getattr(self.kernel, name + end) for name in names))

    def _read_padded(self, arranged: Tensor, reading: PackedRecurrence, states: States) -> Tensor:
        """The outputs of a padded block, [steps, sequences, output_size].

        The directions of a bidirectional layer run separately: from the right, the kernel would begin with the padding.
        """
        if self.side != "both":
            outputs: Tensor = self.kernel(arranged, states if len(states) == 2 else states[0])[0]
            return outputs
        halves: list[Tensor] = []
        for direction in (0, 1):
            own = [state[direction : direction + 1] for state in states]
            block = reading.turn(arranged) if direction else arranged
            half = _READS[self.cell](
                block,
                own if len(own) == 2 else own[0],
                self.weights(direction).parts(),
                has_biases=True,
                num_layers=1,
                dropout=0.0,
                train=self.training,
                bidirectional=False,
                batch_first=False,
            )[0]
            halves.append(reading.turn(half) if direction else half)
        return torch.cat(halves, dim=-1)


@dataclass(frozen=True)
class RecurrentOutput:
    """Outputs of a recurrent stack for one pack.

    reading: layout of the pack; sides: the outputs of each layer in that layout, for one stack or for one per
    direction; states: final states of each layer, () for a padded block.
    """

    reading: PackedRecurrence
    sides: tuple[list[Tensor], ...]
    states: list[States]

    @property
    def last(self) -> Tensor:
        """The output of the last layer, float [tokens, output_size]."""
        return self._output(-1)

    @property
    def layers(self) -> list[Tensor]:
        """The output of each layer, float [tokens, output_size]."""
        return [self._output(number) for number in range(len(self.sides[0]))]

    def _output(self, number: int) -> Tensor:
        parts = [
            self.reading.from_kernel_layout(outputs[number], from_right=from_right)
            for outputs, from_right in zip(self.sides, (False, True), strict=False)
        ]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)


class RecurrentStack(nn.Module):
    """Stacked recurrent layers, with dropout between them.

    Args:
        cell, input_size, size: See `RecurrentLayer`.
        reads: "left" (unidirectional); "both" (bidirectional, each layer on both outputs of the previous one); "apart":
            separate stacks per direction, as required for forward and backward language models (Peters et al. 2018,
            section 3.1).
        dropout_rate: Dropout between layers.
        residual: Add the input of a layer to its output if the sizes match (Wu et al. 2016, equation 6).
    """

    def __init__(
        self,
        cell: CellName,
        input_size: int,
        size: int,
        num_layers: int = 1,
        *,
        reads: Reads = "left",
        dropout_rate: float = 0.0,
        residual: bool = False,
    ) -> None:
        super().__init__()
        self.dropout_rate, self.residual = dropout_rate, residual
        self.output_size = size if reads == "left" else 2 * size
        inner = size if reads == "apart" else self.output_size
        sizes = [input_size] + [inner] * (num_layers - 1)
        side: Side = "both" if reads == "both" else "left"
        self.layers = nn.ModuleList(RecurrentLayer(cell, before, size, side) for before in sizes)
        from_right = sizes if reads == "apart" else []
        self.from_right = nn.ModuleList(RecurrentLayer(cell, before, size, "right") for before in from_right)

    def forward(
        self, vectors: Tensor, lengths: Sequence[int] | PackedRecurrence, states: Sequence[States] | None = None
    ) -> RecurrentOutput:
        """Processes every sequence of a pack.

        vectors: float [tokens, input_size], concatenated sequences; lengths: tokens of each, which may be 0; states:
        final states of an earlier call, None for zeros. With "apart", the right-to-left layers come last in `states`.
        """
        reading = lengths if isinstance(lengths, PackedRecurrence) else PackedRecurrence(lengths, vectors.device)
        before = [None] * (len(self.layers) + len(self.from_right)) if states is None else list(states)
        outputs, after = self._run_layers(
            self.layers, reading.to_kernel_layout(vectors), reading, before[: len(self.layers)]
        )
        if not self.from_right:
            return RecurrentOutput(reading, (outputs,), after)
        arranged = reading.to_kernel_layout(vectors, from_right=True)
        others, more = self._run_layers(self.from_right, arranged, reading, before[len(self.layers) :])
        return RecurrentOutput(reading, (outputs, others), after + more)

    def _run_layers(
        self, layers: nn.ModuleList, arranged: Tensor, reading: PackedRecurrence, states: Sequence[States | None]
    ) -> tuple[list[Tensor], list[States]]:
        outputs: list[Tensor] = []
        after: list[States] = []
        for layer, before in zip(layers, states, strict=True):
            below = dropout(arranged, self.dropout_rate, self.training) if outputs else arranged
            arranged, remembered = cast("RecurrentLayer", layer).read(below, reading, before)
            if self.residual and below.shape == arranged.shape:
                arranged = arranged + below
            outputs.append(arranged)
            after.append(remembered)
        return outputs, after

    def initialize(self, generator: torch.Generator) -> None:
        """Initializes every parameter from one generator."""
        for layer in (*self.layers, *self.from_right):
            for name, parameter in layer.kernel.named_parameters():
                fill_recurrent(layer.kernel, name, parameter, generator)


@torch.no_grad()
def fill_recurrent(kernel: nn.RNNBase, name: str, parameter: Tensor, generator: torch.Generator) -> None:
    """Initializes one parameter of a kernel: matrices [gates * size, input] uniform in +-1/sqrt(size), biases 0.

    The forget-gate bias of an LSTM is 1, so that a new cell keeps its state (Jozefowicz et al. 2015).
    """
    size = kernel.hidden_size
    if parameter.ndim > 1:
        parameter.uniform_(-(size**-0.5), size**-0.5, generator=generator)
        return
    parameter.zero_()
    if isinstance(kernel, nn.LSTM) and name.startswith("bias_ih"):
        parameter[size : 2 * size] = 1.0  # gate order: input, forget, cell, output
