"""`maskwright inspect`: attention, probes and units of a model."""

from __future__ import annotations

from ..groups import DefaultGroup, make_group
from .cells import cells
from .gradients import gradients
from .lengths import lengths
from .page import page
from .probe import probe

app = make_group(
    'Inspect a model: attention, layer-wise probes, single units. `inspect MODEL "text"` is `inspect page`.',
    {"page": page, "probe": probe, "cells": cells, "lengths": lengths, "gradients": gradients},
    DefaultGroup,
)
