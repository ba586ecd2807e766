"""Current and peak memory use of this process."""

from __future__ import annotations

import re
import resource
import sys
from pathlib import Path

STATUS = Path("/proc/self/status")  # Linux


def resident_memory() -> int:
    """Returns the resident memory of this process in bytes; the peak where the system does not report it."""
    return _status_bytes("VmRSS") or peak_memory()


def peak_memory() -> int:
    """Returns the peak resident memory of this process in bytes.

    On Linux, getrusage also includes the peak of the parent process at the fork, so /proc is preferred.
    """
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return _status_bytes("VmHWM") or (peak if sys.platform == "darwin" else 1024 * peak)


def _status_bytes(name: str) -> int | None:
    """Reads one entry of the status file in bytes; None if it is missing."""
    found = re.search(rf"{name}:\s*(\d+)", STATUS.read_text(encoding="utf-8")) if STATUS.exists() else None
    return None if found is None else 1024 * int(found[1])
