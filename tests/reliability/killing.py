"""Kills trainings of one kind and looks at what the same command then ends with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

HARNESS = Path(__file__).with_name("crash_harness.py")
CAN_FORK = hasattr(os, "fork")
NO_FORK = "forks the trainer, which this system cannot"


def check_killed_runs(kind: str, kills: int, folder: Path) -> None:
    """Every killed run of a kind ends with the weights and logs of one that was let alone."""
    found = _run_harness(kind, kills, folder)
    assert found["failures"] == []
    assert found["kills"] >= kills
    assert found["identical"] == found["runs"]


def _run_harness(kind: str, kills: int, folder: Path) -> dict[str, Any]:
    """Run the harness in a separate process, which has used no tensor before it forks."""
    command = [sys.executable, str(HARNESS), kind, "--kills", str(kills), "--folder", str(folder)]
    # Two threads of torch wait for each other actively, which takes many times as long where other programs run.
    threads = {**os.environ, "OMP_NUM_THREADS": "2" if kind == "finetune" else "1", "OMP_WAIT_POLICY": "passive"}
    result = subprocess.run(command, capture_output=True, text=True, timeout=1500, check=False, env=threads)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)
