"""The CPU that a benchmark runs on."""

from __future__ import annotations

from pathlib import Path


def cpu_name() -> str:
    """Return the model name of the CPU."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "not known")
