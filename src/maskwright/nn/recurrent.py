"""Recurrent layers over packed sequences; the result for a sequence does not depend on the others in the pack.

The formulas are in `nn/cells.py`; torch's fused kernels do the arithmetic. A layer is left-to-right, right-to-left, or
bidirectional, with the outputs of both directions concatenated (Graves and Schmidhuber 2005).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from .cells import CELLS, CellWeights
from .dropout import dropout
from .packed_recurrence import PackedRecurrence

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
