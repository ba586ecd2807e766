"""Gradients of embedding tables without a new table of zeros for each step.

A step looks up a few hundred rows of a table of 30,000. Autograd's dense gradient is a new table each time: to get and
clear its memory took a tenth of a fine-tuning step of MiniLM. Here the look-ups give the rows they touched (a sparse
gradient of torch), which are put into one table that stays and is cleared row by row. The optimiser, and the norm of
all gradients, work as with dense ones, for rows without a look-up too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from ..nn.embeddings import Table


class RowGradients:
    """The tables of a model that trains on a CPU. Use it as `with RowGradients.of(model) as rows`."""

    def __init__(self, tables: list[Table]) -> None:
        self.tables = tables
        self._dense: dict[nn.Parameter, Tensor] = {}  # zeros between steps
        self._touched: dict[nn.Parameter, Tensor] = {}  # int64 [rows]

    @classmethod
    @contextmanager
    def of(cls, model: nn.Module) -> Iterator[RowGradients]:
        """Ask the tables of `model` for the rows they touch; at the end they give dense gradients again."""
        tables = [
            module for module in model.modules() if isinstance(module, Table) and module.weight.device.type == "cpu"
        ]
        for table in tables:
            table.gives_rows = True
        try:
            yield cls(tables)
        finally:
            for table in tables:
                table.gives_rows = False

    def spread(self) -> None:
        """After the backward passes of a step: make gradients dense. Those that another use made dense stay."""
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
        """After the update: clear the rows that were touched, so that the tables serve the next step."""
        for parameter, rows in self._touched.items():
            self._dense[parameter].index_fill_(0, rows, 0.0)
            parameter.grad = None
        self._touched.clear()
