"""`torch.autograd.Function` with an annotated `apply`, which torch's lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch


class Function(torch.autograd.Function):
    """A function with its own gradient."""

    if TYPE_CHECKING:

        @classmethod
        def apply(cls, *args: Any, **kwargs: Any) -> Any:
            """Returns what `forward` returns, recorded for the gradient."""
