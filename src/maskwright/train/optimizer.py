"""AdamW with the published decay groups (Devlin et al. 2019, appendix A.2), and the gradients of embedding tables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.autograd.graph import increment_version

from ..nn.embeddings import Table

ADAM = (0.999, 1e-6)  # beta2 and epsilon, as published for BERT


def adamw(model: nn.Module, lr: float, weight_decay: float, adam: tuple[float, float] = ADAM) -> torch.optim.AdamW:
    """AdamW over the trainable parameters: weight decay on matrices, none on biases and norms.

    adam: beta2 and epsilon; beta1 is 0.9. Fused on CPU and CUDA.
    """
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [parameter for parameter in trained if parameter.ndim >= 2], "weight_decay": weight_decay},
        {"params": [parameter for parameter in trained if parameter.ndim < 2], "weight_decay": 0.0},
    ]
    fused = trained[0].device.type in ("cpu", "cuda")
    optimizer = torch.optim.AdamW(groups, lr=lr, betas=(0.9, adam[0]), eps=adam[1], fused=fused)
    if fused:
        # A fused step does not increment the version counters of the parameters.
        optimizer.register_step_post_hook(lambda *_: increment_version(trained))
    return optimizer


def set_learning_rate(optimizer: torch.optim.Optimizer, lr: float) -> None:
    """Set the learning rate of all parameter groups."""
    for group in optimizer.param_groups:
        group["lr"] = lr


def skip_unless_finite(optimizer: torch.optim.Optimizer, norm: Tensor) -> bool:
    """Make the next step leave weights and moments as they are if `norm`, a scalar, is not finite.

    The device decides, so that the host need not wait. Returns False, and changes nothing, for an optimizer that cannot
    do it: only fused kernels can, and not those over parts of parameters (FSDP).
    """
    parameters = optimizer.param_groups[0]["params"] or optimizer.param_groups[-1]["params"]
    if not optimizer.defaults["fused"] or type(parameters[0].data) is not Tensor:
        return False
    optimizer.found_inf = (~norm.isfinite()).float()  # type: ignore[attr-defined]  # read by torch's fused kernels
    return True


class RowGradients:
    """Gradients of embedding tables without a new dense tensor for each step, in training on a CPU.

    A step looks up a few hundred rows of a table of 30,000. Autograd's dense gradient is a new tensor each time:
    allocating and clearing it took 10% of a fine-tuning step of MiniLM. Here the lookups give sparse gradients, which
    are copied to one persistent dense tensor that is cleared row by row. The optimizer and gradient clipping work as
    with dense gradients, including for rows without a lookup.

    Use `with RowGradients.of(model) as rows`.
    """

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
