"""benchmarks/recurrent.py, tried with a tiny network: both sides compute the same, and a table is printed."""

from __future__ import annotations

import subprocess
import sys

from conventions.sources import REPOSITORY


def test_both_sides_compute_the_same():
    command = [sys.executable, str(REPOSITORY / "benchmarks" / "recurrent.py"), "--quick", "--threads", "1"]
    found = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert found.returncode == 0, found.stderr
    reading, training = ([cell.strip() for cell in line.split("|")[1:-1]] for line in found.stdout.splitlines()[-2:])
    assert (reading[0], training[0]) == ("reading", "training")
    assert float(reading[-1]) < 1e-5
    assert all(float(cell.replace(",", "")) > 0 for cell in (*reading[3:8], *training[3:8]))
