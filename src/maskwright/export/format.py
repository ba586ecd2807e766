"""Formats of exported graphs: one `Format` each, in `core.registry` under "export_format".

A format whose graph another runtime runs has a class there too, under "export_runtime". Runtimes import no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from .cached import Network
    from .config import ExportConfig


@dataclass(frozen=True)
class Conversion:
    """How a float32 graph becomes one of another precision.

    Attributes:
        write: folder of the float32 graph, its files, new folder, inputs to calibrate on (empty unless int8), names of
            products that stay in float32 -> the files of the new graph, the graph first.
        packages: further packages whose versions the folder records.
        facts: what the folder records of the conversion.
    """

    write: Callable[[Path, list[str], Path, Sequence[dict[str, np.ndarray]], Sequence[str]], list[str]]
    packages: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Format:
    """How a traced program is written, and how other programs run it.

    Attributes:
        write: program, network, new folder, settings -> the files of the float32 graph, the graph first.
        conversions: how its graph gets another precision, by precision.
        packages: packages whose versions the folder records.
        settings: settings of the export that the folder records.
        script: lines of a program that runs the graph: imports, opening, running, with {file}, {names} and {compute},
            OpenVINO's name of the precision that it computes in; None if there is no such program.
        loading: line that loads the graph in torch, with {file}; "" if torch does not.
    """

    write: Callable[[Any, Network, Path, ExportConfig], list[str]]
    packages: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    conversions: Mapping[str, Conversion] = field(default_factory=dict)
    script: tuple[str, str, str] | None = None
    loading: str = ""
