"""Current and peak memory use of this process, and the return of free memory to the operating system."""

from __future__ import annotations

import ctypes
import os
import re
import resource
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

_M_MMAP_THRESHOLD = -3  # of malloc.h
MAPPED_BYTES = 1 << 20
STATUS = Path("/proc/self/status")  # Linux


def resident_memory() -> int:
    """Returns the resident memory of this process in bytes; the peak where the system does not report it."""
    return _status_bytes("VmRSS") or peak_memory()


def peak_memory() -> int:
    """Returns the peak resident memory of this process in bytes.

    On Linux, getrusage also includes the peak of the parent process at the fork, so /proc is preferred.
    """
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return _status_bytes("VmHWM") or (peak if sys.platform == "darwin" else 1024 * peak)


def _status_bytes(name: str) -> int | None:
    """Reads one entry of the status file in bytes; None if it is missing."""
    found = re.search(rf"{name}:\s*(\d+)", STATUS.read_text(encoding="utf-8")) if STATUS.exists() else None
    return None if found is None else 1024 * int(found[1])


def map_large_blocks() -> None:
    """Lets glibc map blocks from 1 MB on separately, so that their memory is returned when they are freed.

    By default it raises this limit to the size of what was freed, up to 32 MB, and then keeps such blocks in its heap:
    a training that gathers and frees weights in every layer grows to several times what it uses. Separate blocks cost
    time, because the system clears their pages at each use. glibc's variable MALLOC_MMAP_THRESHOLD_ takes precedence.
    """
    if "MALLOC_MMAP_THRESHOLD_" in os.environ:
        return
    with suppress(AttributeError, OSError, TypeError):  # another C library
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, MAPPED_BYTES)


def return_free_memory() -> None:
    """Returns the free pages of the C library's heap to the operating system; no effect unless that library is glibc.

    glibc keeps freed memory between blocks that are in use. Tensors of ever new sizes leave ever new gaps, so the
    memory of a long job grows although nothing leaks. This takes a few milliseconds: call it between blocks of work.
    """
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


@cache
def _malloc_trim() -> Any:
    """glibc's malloc_trim, or None."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
