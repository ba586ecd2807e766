"""Memory of this process: what it holds, and the most it held, whatever the process before it had."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from maskwright.core.memory import STATUS, peak_memory, resident_memory


@pytest.mark.skipif(not STATUS.exists(), reason="only Linux tells a process's own peak apart")
def test_peak_memory_is_the_own_processs_not_that_of_the_one_that_started_it():
    held = np.ones(50_000_000)  # 400 MB, all touched
    code = "from maskwright.core.memory import peak_memory; print(peak_memory())"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 1e7 < int(run.stdout) < held.nbytes < peak_memory()


@pytest.mark.skipif(not STATUS.exists(), reason="elsewhere what is held now is not told")
def test_what_is_given_back_is_no_longer_held_but_was():
    before = resident_memory()
    held = np.ones(50_000_000)  # 400 MB, all touched
    assert resident_memory() > before + 0.9 * held.nbytes
    most = peak_memory()
    del held
    assert resident_memory() < before + 2e8 and peak_memory() > most - 1e6  # the kernel counts in batches
