"""Memory of this process: current and peak use, and free memory that goes back to the operating system."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from maskwright.core.memory import STATUS, peak_memory


@pytest.mark.skipif(not STATUS.exists(), reason="only Linux tells a process's own peak apart")
def test_peak_memory_is_the_own_processs_not_that_of_the_one_that_started_it():
    held = np.ones(50_000_000)  # 400 MB, all touched
    code = "from maskwright.core.memory import peak_memory; print(peak_memory())"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 1e7 < int(run.stdout) < held.nbytes < peak_memory()


# -- Freed memory goes back to the system -----------------------------------------------------------------------------

GAPS = """
import sys, numpy
from maskwright.core.memory import map_large_blocks, resident_memory
if sys.argv[1] == "map":
    map_large_blocks()
del (first := [numpy.ones(3 << 20)])[:]  # 24 MB: from now on, glibc keeps smaller blocks in its heap
before = resident_memory()
large, small = [], []
for _ in range(20):
    large.append(numpy.ones(1 << 20))  # 8 MB
    small.append(bytearray(100_000))
large.clear()
print((resident_memory() - before) >> 20)
"""


def kept(how: str, **environment: str) -> int:
    """Megabytes that stay after 160 MB were freed between blocks in use."""
    command = [sys.executable, "-c", GAPS, how]
    found = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **environment})
    return int(found.stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's behavior")
def test_large_blocks_are_returned_unless_the_environment_decides():
    if (heap := kept("heap")) < 100:
        pytest.skip(f"this C library keeps {heap} MB only")
    assert kept("map") < 20
    assert kept("map", MALLOC_MMAP_THRESHOLD_=str(32 << 20)) > 100
