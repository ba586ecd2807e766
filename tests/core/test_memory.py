"""Free memory goes back to the operating system, also between blocks that are still in use."""

from __future__ import annotations

import subprocess
import sys

import pytest

from maskwright.core import memory

PROGRAM = """
import psutil
from maskwright.core.memory import return_free_memory

blocks = [bytearray(16_000) for _ in range(8_000)]  # 128 MB in the heap
kept = blocks[::64]  # one block in use in every megabyte: the heap cannot shrink
del blocks
before = psutil.Process().memory_info().rss
return_free_memory()
print(before - psutil.Process().memory_info().rss)
"""


@pytest.mark.skipif(memory._malloc_trim() is None, reason="the C library is not glibc")
def test_memory_between_blocks_in_use_is_returned():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert int(done.stdout) > 64e6


def test_another_c_library_changes_nothing(monkeypatch):
    monkeypatch.setattr(memory, "_malloc_trim", lambda: None)
    memory.return_free_memory()
