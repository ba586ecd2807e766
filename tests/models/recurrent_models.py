"""Small recurrent models with weights large enough that tokens matter."""

import torch

from maskwright.models.build import build
from maskwright.models.presets import preset

SIZES = {"vocab_size": 60, "hidden_size": 12, "num_hidden_layers": 2}


def network(name="lstm-small", **changes):
    return preset(name, **{**SIZES, **changes})


def model(name="lstm-small", head="clm", seed=0, **changes):
    made = build(network(name, **changes), head, seed=seed).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.normal_(0, 0.4, generator=generator)
    return made
