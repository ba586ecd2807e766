"""Recurrent layers over packed sequences: each sequence by itself, whatever stands beside it in the pack.

The cells are those of `nn/cells.py`; torch's fused kernels do the arithmetic. A layer reads each sequence from the
left, from the right, or from both ends with the two outputs of a token behind each other (Graves and Schmidhuber 2005).
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
from .reading import Reading

CellName = Literal["rnn", "gru", "lstm"]
Side = Literal["left", "right", "both"]  # from which end a layer reads
Reads = Literal["left", "both", "apart"]  # how a stack reads
States = tuple[Tensor, ...]  # of one layer: h, and c of an LSTM, float [directions, sequences, size] each

CELL_NAMES: tuple[str, ...] = get_args(CellName)
_KERNELS: dict[str, type[nn.RNN | nn.GRU | nn.LSTM]] = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}
_STEPS: dict[str, Callable[..., Any]] = {"rnn": torch.rnn_tanh_cell, "gru": torch.gru_cell, "lstm": torch.lstm_cell}
_READS: dict[str, Callable[..., Any]] = {"rnn": torch.rnn_tanh, "gru": torch.gru, "lstm": torch.lstm}


class RecurrentLayer(nn.Module):
    """One layer of cells.

    cell: one of CELL_NAMES; input_size: of a token's vector; size: of what a cell remembers; side: from which end it
    reads. Parameters are left unfilled: `fill_recurrent` fills them. Products run in their dtype.
    """

    def __init__(self, cell: CellName, input_size: int, size: int, side: Side = "left") -> None:
        super().__init__()
        # On "meta" nothing is filled, so building draws nothing from torch's global generator.
        kernel = _KERNELS[cell](input_size, size, bidirectional=side == "both", device="meta")
        home = torch.get_default_device()
        self.kernel: nn.RNNBase = kernel if home.type == "meta" else kernel.to_empty(device=home)
        self.cell, self.size, self.side = cell, size, side
        self.num_directions = 2 if side == "both" else 1
        self.output_size = self.num_directions * size

    def forward(self, vectors: Tensor, reading: Reading, states: States | None = None) -> tuple[Tensor, States]:
        """Read every sequence of a pack.

        vectors: float [tokens, input_size], sequences end to end; states: what was remembered before it, None for
        nothing. Returns float [tokens, output_size], and what is remembered at the end: that of a sequence without
        tokens is what it was; () where the reading pads, since it is not known then.
        """
        from_right = self.side == "right"
        outputs, states = self.read(reading.lay(vectors, from_right=from_right), reading, states)
        return reading.collect(outputs, from_right=from_right), states

    def read(self, laid: Tensor, reading: Reading, states: States | None = None) -> tuple[Tensor, States]:
        """The same for vectors that `Reading.lay` has laid, so that layers above each other pass them on as they lie.

        laid: [..., input_size], as `lay` gives it for the layer's side. Returns [..., output_size], and the states.
        """
        dtype = laid.dtype
        laid = laid.to(self.weights().W.dtype)
        if states is None:
            states = self.blank(reading.num_sequences, laid)
        if not reading.num_tokens:
            return laid.new_zeros(0, self.output_size).to(dtype), states
        rows = reading.rows
        own = tuple((state if rows is None else state[:, rows]).contiguous() for state in states)
        if reading.pads:
            return self._read_padded(laid, reading, own).to(dtype), ()
        before = own if len(own) == 2 else own[0]
        if reading.length is not None:
            outputs, after = self.kernel(laid, before)
        else:
            packed, after = self.kernel(PackedSequence(laid, reading.batch_sizes), before)
            outputs = packed.data
        after = after if isinstance(after, tuple) else (after,)
        if rows is not None:
            after = tuple(old.index_copy(1, rows, new) for old, new in zip(states, after, strict=True))
        return outputs.to(dtype), after

    def blank(self, num_sequences: int, like: Tensor) -> States:
        """Nothing remembered: zeros [directions, num_sequences, size] of the dtype and device of `like`, [...]."""
        shape = (self.num_directions, num_sequences, self.size)
        return tuple(like.new_zeros(shape) for _ in range(CELLS[self.cell].num_states))

    def step(self, vectors: Tensor, states: States) -> States:
        """One more token of each sequence, float [sequences, input_size]: what is remembered behind it.

        states: each float [1, sequences, size], as are the results. For layers that read from the left.
        """
        own = states[0][0] if len(states) == 1 else [state[0] for state in states]
        after = _STEPS[self.cell](vectors, own, *self.weights().parts())
        return tuple(state.unsqueeze(0) for state in (after if isinstance(after, tuple) else (after,)))

    def weights(self, direction: int = 0) -> CellWeights:
        """The matrices and biases of one direction, as the formulas take them."""
        end = "_reverse" if direction else ""
        names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
        return CellWeights(*(getattr(self.kernel, name + end) for name in names))

    def _read_padded(self, laid: Tensor, reading: Reading, states: States) -> Tensor:
        """The outputs of a padded block, [steps, sequences, output_size]. A layer from both ends takes each by itself:
        from the right it would begin with the zeros.
        """
        if self.side != "both":
            outputs: Tensor = self.kernel(laid, states if len(states) == 2 else states[0])[0]
            return outputs
        halves: list[Tensor] = []
        for direction in (0, 1):
            own = [state[direction : direction + 1] for state in states]
            block = reading.turn(laid) if direction else laid
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
class Read:
    """What a stack makes of a pack.

    reading: how the pack lies; sides: the outputs of each layer as they were laid, of one stack, or of one from the
    left and one from the right; states: what each layer remembers, () where the reading pads.
    """

    reading: Reading
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
            self.reading.collect(outputs[number], from_right=from_right)
            for outputs, from_right in zip(self.sides, (False, True), strict=False)
        ]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)


class RecurrentStack(nn.Module):
    """Layers one above the other, with dropout between them.

    cell, input_size, size: as of a layer; reads: "left"; "both", each layer from both ends over all of the one below;
    "apart", a stack for each direction that knows nothing of the other, as a pair of language models must be (Peters
    et al. 2018, section 3.1); dropout_rate: on what passes from layer to layer; residual: layers whose input is as wide
    as their output add to it (Wu et al. 2016, equation 6).
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
        self, vectors: Tensor, lengths: Sequence[int] | Reading, states: Sequence[States] | None = None
    ) -> Read:
        """Read every sequence of a pack.

        vectors: float [tokens, input_size], sequences end to end; lengths: tokens of each, which may be 0; states: what
        an earlier call remembered, None for nothing. Of "apart" the layers from the right stand behind the others in
        `states`.
        """
        reading = lengths if isinstance(lengths, Reading) else Reading(lengths, vectors.device)
        before = [None] * (len(self.layers) + len(self.from_right)) if states is None else list(states)
        outputs, after = self._climb(self.layers, reading.lay(vectors), reading, before[: len(self.layers)])
        if not self.from_right:
            return Read(reading, (outputs,), after)
        laid = reading.lay(vectors, from_right=True)
        others, more = self._climb(self.from_right, laid, reading, before[len(self.layers) :])
        return Read(reading, (outputs, others), after + more)

    def _climb(
        self, layers: nn.ModuleList, laid: Tensor, reading: Reading, states: Sequence[States | None]
    ) -> tuple[list[Tensor], list[States]]:
        outputs: list[Tensor] = []
        after: list[States] = []
        for layer, before in zip(layers, states, strict=True):
            below = dropout(laid, self.dropout_rate, self.training) if outputs else laid
            laid, remembered = cast("RecurrentLayer", layer).read(below, reading, before)
            if self.residual and below.shape == laid.shape:
                laid = laid + below
            outputs.append(laid)
            after.append(remembered)
        return outputs, after

    def initialise(self, generator: torch.Generator) -> None:
        """Fill every parameter from one generator."""
        for layer in (*self.layers, *self.from_right):
            for name, parameter in layer.kernel.named_parameters():
                fill_recurrent(layer.kernel, name, parameter, generator)


@torch.no_grad()
def fill_recurrent(kernel: nn.RNNBase, name: str, parameter: Tensor, generator: torch.Generator) -> None:
    """Fill one parameter of a kernel: matrices [gates * size, input] uniform in +-1/sqrt(size), biases 0, but 1 for the
    forget gate of an LSTM, so that a new cell remembers (Jozefowicz et al. 2015).
    """
    size = kernel.hidden_size
    if parameter.ndim > 1:
        parameter.uniform_(-(size**-0.5), size**-0.5, generator=generator)
        return
    parameter.zero_()
    if isinstance(kernel, nn.LSTM) and name.startswith("bias_ih"):
        parameter[size : 2 * size] = 1.0  # gates stand in the order input, forget, cell, output
