"""How much main memory this process holds, and has held."""

from __future__ import annotations

import re
import resource
import sys
from pathlib import Path

STATUS = Path("/proc/self/status")  # Linux's account of a process


def resident_memory() -> int:
    """Bytes of main memory that this process holds now; where the system does not tell, the most that it has held."""
    return _told("VmRSS") or peak_memory()


def peak_memory() -> int:
    """The most main memory that this process has had, in bytes.

    Linux tells it of the process itself; getrusage's number begins there at what the process that started it had.
    """
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return _told("VmHWM") or (peak if sys.platform == "darwin" else 1024 * peak)


def _told(name: str) -> int | None:
    """Bytes of a line of the account; None where there is no such line."""
    found = re.search(rf"{name}:\s*(\d+)", STATUS.read_text(encoding="utf-8")) if STATUS.exists() else None
    return None if found is None else 1024 * int(found[1])
