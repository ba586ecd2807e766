#!/usr/bin/env bash
# Expected: torch.autograd.function.once_differentiable makes a second derivative raise an error, as its name and its
#   documentation say ("only be differentiable once").
# Happens: the error is attached only if the gradient that comes in needs a gradient itself. For a loss it does not, so
#   torch.autograd.functional.hessian, hvp and vhp return zeros, without a warning. jvp, a first derivative, returns 0 too,
#   because it is computed by differentiating twice.
# Version: torch 2.13.0+cpu, Linux.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0 numpy
"$folder/venv/bin/python" - <<'PY'
import sys

import torch
from torch.autograd.function import once_differentiable
from torch.autograd.functional import hessian, hvp, jvp


class Square(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        context.save_for_backward(x)
        return x * x

    @staticmethod
    @once_differentiable
    def backward(context, slope):
        return 2 * context.saved_tensors[0] * slope


def loss(x):
    return Square.apply(x).sum()


x, ones = torch.tensor([1.0, 2.0, 3.0]), torch.ones(3)
found = {
    "hessian, 2 on the diagonal": hessian(loss, x).diagonal(),
    "hvp, 2 everywhere": hvp(loss, x, ones)[1],
    "jvp, 12": jvp(loss, x, ones)[1],
}
for name, value in found.items():
    print(f"torch {torch.__version__}: {name}: {value.tolist()}")
if any(bool(value.any()) for value in found.values()):
    sys.exit("The behavior changed: the values are not zero.")
PY
