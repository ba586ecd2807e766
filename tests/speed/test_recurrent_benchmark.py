"""benchmarks/recurrent.py, tried with a tiny network: both sides compute the same, and a table is printed."""

from __future__ import annotations

import subprocess
import sys

from conventions.sources import REPOSITORY


def test_both_sides_compute_the_same():
    command = [sys.executable, str(REPOSITORY / "benchmarks" / "recurrent.py"), "--quick", "--threads", "1"]
    found = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert found.returncode == 0, found.stderr
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in found.stdout.splitlines()[-4:]]
    works = [f"{model}, {work}" for model in ("language model", "tagger") for work in ("reading", "training")]
    assert [row[0] for row in rows] == works
    assert all(float(row[-1]) < 1e-5 for row in rows[::2])
    assert all(float(cell.replace(",", "")) > 0 for row in rows for cell in row[3:8])
