"""Killed anywhere, the same command ends with the same bits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HARNESS = Path(__file__).with_name("crash_harness.py")

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks the trainer, which this system cannot")


def run_harness(kind: str, kills: int, folder: Path) -> dict[str, object]:
    """Run the harness in a process of its own, which has touched no tensor before it forks."""
    command = [sys.executable, str(HARNESS), kind, "--kills", str(kills), "--folder", str(folder)]
    threads_of_a_user = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    result = subprocess.run(command, capture_output=True, text=True, timeout=1500, check=False, env=threads_of_a_user)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize(
    ("kind", "kills"),
    [
        ("pretrain", 6),
        ("finetune", 4),
        pytest.param("pretrain", 50, marks=pytest.mark.slow),
        pytest.param("finetune", 20, marks=pytest.mark.slow),
        pytest.param("distill", 20, marks=pytest.mark.slow),
        pytest.param("translation", 10, marks=pytest.mark.slow),
        pytest.param("lstm", 10, marks=pytest.mark.slow),
        pytest.param("bilm", 10, marks=pytest.mark.slow),
    ],
)
def test_killed_runs_end_with_identical_weights_and_logs(kind: str, kills: int, tmp_path: Path):
    found = run_harness(kind, kills, tmp_path)
    assert found["failures"] == []
    assert found["kills"] >= kills
    assert found["identical"] == found["runs"]
