"""The C++ files of this folder as one library, compiled once per machine by the compiler found there.

`unsuitable` and `library` return the reason where it cannot be used; torch's operators compute the same then.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import stat
import subprocess
import sys
import tempfile
from array import array
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from threading import RLock
from typing import Any

import torch

from ...core.errors import InputError, MaskwrightError
from ...core.progress import note
from ...core.storage import private_folder
from ...core.util import COMPILERS, cache_folder, cpp_compiler

FOLDER = Path(__file__).parent
SOURCES = FOLDER / "layers.cpp", FOLDER / "training.cpp"
READY = FOLDER / "native.so"  # compiled beforehand, as in the image of deploy/Dockerfile
SWITCH = "MASKWRIGHT_NATIVE"  # environment variable: "off" for torch's operators
SETS = ("-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx512bf16", "-mavx512vnni")
OPTIONS = ("-O2", "-std=c++17", "-shared", "-fPIC", "-fopenmp", *SETS)
REQUIRED = ("avx512_f", "avx512_bw", "avx512_dq", "avx512_vl")  # as torch names them
LOCK = RLock()  # threads compile and try it once


def unsuitable() -> str | None:
    """Returns why this CPU, or the user, has no use for it."""
    if os.environ.get(SWITCH) == "off":
        return f"{SWITCH}=off"
    return None if all(map(cpu_has, REQUIRED)) else "it needs a CPU with AVX-512"


def cpu_has(name: str) -> bool:
    """Whether the CPU has an instruction set, such as "amx_bf16"; False if torch does not report it."""
    return name in instruction_sets()


@cache
def instruction_sets() -> frozenset[str]:
    """Returns the CPU instruction sets that torch reports; none if unknown."""
    ask = getattr(torch.cpu, "get_capabilities", None)  # missing in older releases of torch
    return frozenset() if ask is None else frozenset(name for name, has in ask().items() if has is True)


@cache
def library() -> ctypes.CDLL | str:
    """Returns the library, compiled into the user's cache if it is not there; or why there is none."""
    try:
        path = READY if READY.is_file() else _compiled()
        if path != READY:
            _check_owners(path)
        found = ctypes.CDLL(str(path))
        found.encode.restype = found.attend.restype = ctypes.c_bool
        found.drop.restype = found.add_norm.restype = found.add_norm_backward.restype = None
        return found
    except (OSError, RuntimeError, AttributeError, MaskwrightError) as error:  # RuntimeError: no home folder
        return f"its library cannot be used ({error})"


def numbers_of_runs(runs: Sequence[Any]) -> array[int]:
    """Returns the count and length of each run (nn.attention.Run), int64."""
    return array("q", [size for run in runs for size in (run.count, run.length)])


def address(numbers: torch.Tensor | array[int] | None) -> ctypes.c_void_p:
    """Returns where numbers are, as an argument; null for None."""
    if isinstance(numbers, array):
        return ctypes.c_void_p(numbers.buffer_info()[0])
    return ctypes.c_void_p(None if numbers is None else numbers.data_ptr())


def _check_owners(path: Path) -> None:
    """Raises InputError if another user could have put a file there."""
    for one in (path, *path.parents):
        found = one.stat()
        is_open = found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX
        if found.st_uid not in (0, os.geteuid()) or is_open:
            raise InputError(f"{one} belongs to another user, or every user can write to it")


def _compiled() -> Path:
    """Returns the library in the user's cache. Raises InputError if it cannot be compiled."""
    folder = cache_folder("native")
    private_folder(folder)
    _check_owners(folder)
    digest = hashlib.sha256(" ".join(OPTIONS).encode())
    for source in sorted(FOLDER.glob("*.h")) + list(SOURCES):
        digest.update(source.read_bytes())
    path = folder / f"{digest.hexdigest()[:32]}.so"
    if path.is_file():
        return path
    compiler = cpp_compiler()
    if not sys.platform.startswith("linux") or compiler is None:
        raise InputError(f"there is no C++ compiler on the path ({', '.join(COMPILERS)})")
    note(f"compiling the layers of encoders, once (a few seconds): {path}")
    handle, name = tempfile.mkstemp(suffix=".so", dir=folder)
    os.close(handle)
    new = Path(name)
    try:
        command = [compiler, *OPTIONS, *map(str, SOURCES), "-o", name]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        if done.returncode != 0 or not new.stat().st_size:
            lines = [line for line in done.stderr.splitlines() if "error" in line] or [f"exit code {done.returncode}"]
            raise InputError(f"{compiler}: {lines[0].strip()[:200]}")
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
    return path
