"""Returns free memory to the operating system."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any


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
