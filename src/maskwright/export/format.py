"""Formats of exported graphs: one `Format` each, in `core.registry` under "export_format".

A format whose graph another runtime runs has a class there too, under "export_runtime". Runtimes import no torch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .config import ExportConfig
    from .network import PaddedNetwork


@dataclass(frozen=True)
class Format:
    """How a traced program is written, and how other programs run it.

    Attributes:
        write: program, network, new folder, settings -> the files of the graph, the graph first.
        packages: packages whose versions the folder records.
        settings: settings of the export that the folder records.
        script: lines of a program that runs the graph: imports, opening, running, with {file} and {names}; None if
            there is no such program.
        loading: line that loads the graph in torch, with {file}; "" if torch does not.
    """

    write: Callable[[Any, PaddedNetwork, Path, ExportConfig], list[str]]
    packages: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    script: tuple[str, str, str] | None = None
    loading: str = ""
