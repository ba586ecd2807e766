"""Writes a traced program in torch's own format.

maskwright never reads it: the loader of the format may run code that the file contains.
"""

from __future__ import annotations

import io
from pathlib import Path

import torch

from ..core import storage
from .cached import Network
from .config import ExportConfig
from .format import Format
from .program import quiet

FILE = "torch/{name}.pt2"  # after the name of the graph


def write_torch(
    program: torch.export.ExportedProgram, network: Network, folder: Path, config: ExportConfig
) -> list[str]:
    """Writes `folder/torch/model.pt2`. Returns the files written."""
    name = FILE.format(name=network.name)
    data = io.BytesIO()
    with quiet():
        torch.export.save(program, data)
    storage.write_bytes(folder / name, data.getvalue())
    return [name]


FORMAT = Format(write_torch, loading='program = torch.export.load("{file}").module()  # only files that you trust')
