"""Gradients of embedding tables without allocating a dense tensor for each step.

A step looks up a few hundred rows of a table of 30,000. Autograd's dense gradient is a new tensor each time: allocating
and clearing it took 10% of a fine-tuning step of MiniLM. Here the lookups give sparse gradients, which are copied to
one persistent dense tensor that is cleared row by row. The optimizer and gradient clipping work as with dense
gradients, including for rows without a lookup.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from ..nn.embeddings import Table


class RowGradients:
    """The embedding tables of a model that trains on a CPU. Use `with RowGradients.of(model) as rows`."""

    def __init__(self, tables: list[Table]) -> None:
        self.tables = tables
        self._dense: dict[nn.Parameter, Tensor] = {}  # zeros between steps
        self._touched: dict[nn.Parameter, Tensor] = {}  # int64 [rows]

    @classmethod
    @contextmanager
    def of(cls, model: nn.Module) -> Iterator[RowGradients]:
        """Switch the tables of `model` to sparse gradients; restores dense ones on exit."""
        tables = [
            module for module in model.modules() if isinstance(module, Table) and module.weight.device.type == "cpu"
        ]
        for table in tables:
            table.sparse_gradient = True
        try:
            yield cls(tables)
        finally:
            for table in tables:
                table.sparse_gradient = False

    def spread(self) -> None:
        """After the backward passes of a step: make the sparse gradients dense."""
        for parameter in {table.weight for table in self.tables}:
            gradient = parameter.grad
            if gradient is None or not gradient.is_sparse:
                continue
            gradient = gradient.coalesce()
            rows = gradient.indices()[0]
            if parameter not in self._dense:
                self._dense[parameter] = torch.zeros_like(parameter)
            dense = self._dense[parameter].index_copy_(0, rows, gradient.values())
            parameter.grad, self._touched[parameter] = dense, rows

    def clear(self) -> None:
        """After the update: zero the used rows for the next step."""
        for parameter, rows in self._touched.items():
            self._dense[parameter].index_fill_(0, rows, 0.0)
            parameter.grad = None
        self._touched.clear()
