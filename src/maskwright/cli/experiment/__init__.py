"""`maskwright experiment`: experiments that train several models and compare them."""

from __future__ import annotations

from ..settings import make_group
from .ablations import ablations
from .benchmark import benchmark
from .ladder import ladder
from .layers import layers
from .rare import rare

app = make_group(
    "Train several models under one budget and compare them.",
    {"layers": layers, "rare": rare, "ladder": ladder, "benchmark": benchmark, "ablations": ablations},
)
