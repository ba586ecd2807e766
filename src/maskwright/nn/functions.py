"""`torch.autograd.Function` with an annotated `apply`, and functions that have a first derivative only."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import torch

Arguments = ParamSpec("Arguments")
Gradients = TypeVar("Gradients")


class Function(torch.autograd.Function):
    """A function with its own gradient."""

    if TYPE_CHECKING:

        @classmethod
        def apply(cls, *args: Any, **kwargs: Any) -> Any:
            """Returns what `forward` returns, recorded for the gradient."""


def first_derivative_only(backward: Callable[Arguments, Gradients]) -> Callable[Arguments, Gradients]:
    """Makes a `backward` raise RuntimeError where its result is to be differentiated again.

    torch's `once_differentiable` does so only if the incoming gradient needs one itself: second derivatives of a loss
    are 0 without a word (torch 2.13).
    """

    @wraps(backward)
    def checked(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Gradients:
        if torch.is_grad_enabled():
            name = backward.__qualname__.split(".")[0].lstrip("_")
            raise RuntimeError(f"{name} has no second derivative: compute its gradient without create_graph.")
        return backward(*args, **kwargs)

    return checked
