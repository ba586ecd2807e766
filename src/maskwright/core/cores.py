"""The number of CPU cores this process may use."""

from __future__ import annotations

import os


def usable_cores() -> int:
    """Returns the CPU cores this process may run on (its CPU affinity), at most those of the machine."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1
