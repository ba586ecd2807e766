"""Writes a traced program in torch's own format.

maskwright never reads it: the loader of the format may run code that the file contains.
"""

from __future__ import annotations

import io
from pathlib import Path

import torch

from ..core import storage
from .config import ExportConfig
from .format import Format
from .network import PaddedNetwork
from .program import quiet

FILE = "torch/model.pt2"


def write_torch(
    program: torch.export.ExportedProgram, network: PaddedNetwork, folder: Path, config: ExportConfig
) -> list[str]:
    """Writes `folder/torch/model.pt2`. Returns the files written."""
    data = io.BytesIO()
    with quiet():
        torch.export.save(program, data)
    storage.write_bytes(folder / FILE, data.getvalue())
    return [FILE]


FORMAT = Format(write_torch, loading='program = torch.export.load("{file}").module()  # only files that you trust')
