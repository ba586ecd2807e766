"""How many processor cores this process may use."""

from __future__ import annotations

import os


def usable_cores() -> int:
    """Cores that this process may run on: fewer than the machine has where it was confined to some."""
    ask = getattr(os, "sched_getaffinity", None)
    return len(ask(0)) if ask is not None else os.cpu_count() or 1
