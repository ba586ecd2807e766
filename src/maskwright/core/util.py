"""Small functions of every part: the machine, counts and texts of messages, settings of the device."""

from __future__ import annotations

import math
import os
import re
import shutil
from pathlib import Path
from typing import Literal

from .config import HARDWARE, Setting

# -- The machine: CPU cores this process may use, its C++ compiler, the folder of its cache --------------------------


GROUPS, OWN_GROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
CORES = Path("/sys/devices/system/cpu")


def usable_cores() -> int:
    """Returns the CPU cores this process may use: by its CPU affinity and the quota of its container, at least 1."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    return max(1, math.ceil(min(cores, _quota())))


def keep_to_quota() -> None:
    """Limits the threads of torch, which is imported later and counts the cores of the machine, to the CPU quota.

    More threads than the quota pause each other. No effect if the quota is at least the physical cores, or if
    OMP_NUM_THREADS is set.
    """
    if math.isfinite(quota := _quota()):
        siblings = {path.read_text(encoding="utf-8") for path in CORES.glob("cpu[0-9]*/topology/thread_siblings_list")}
        if quota < (len(siblings) or os.cpu_count() or 1):
            os.environ.setdefault("OMP_NUM_THREADS", str(usable_cores()))


def _quota() -> float:
    """Returns the cores that the control groups of this process allow (Linux, versions 1 and 2); infinity if all."""
    found = [math.inf]
    try:
        groups = [line.split(":", 2) for line in OWN_GROUPS.read_text(encoding="utf-8").splitlines()]
    except OSError:
        return math.inf
    for _, controllers, name in groups:
        if controllers and "cpu" not in controllers.split(","):
            continue
        root = GROUPS / ("cpu" if controllers else "")
        folder = root / name.strip("/")
        folders = [folder, *folder.parents]
        for one in folders[: folders.index(root) + 1] if root in folders else ():
            files = [one / "cpu.cfs_quota_us", one / "cpu.cfs_period_us"] if controllers else [one / "cpu.max"]
            try:
                quota, period = " ".join(file.read_text(encoding="utf-8") for file in files).split()
                found.append(int(quota) / int(period) if quota != "max" and int(quota) > 0 else math.inf)
            except (OSError, ValueError):  # the group of another container, or another system
                continue
    return min(found)


COMPILERS = ("g++", "clang++", "c++")


def cpp_compiler() -> str | None:
    """Returns the path of the C++ compiler, or None."""
    return next(filter(None, map(shutil.which, COMPILERS)), None)


def cache_folder(kind: str) -> Path:
    """Returns the user's folder for one kind of files that can be made again; a relative XDG_CACHE_HOME is ignored."""
    root = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (root if root.is_absolute() else Path.home() / ".cache") / "maskwright" / kind


# -- Counts in messages: "1 row is", "2,000 rows are" ----------------------------------------------------------------


def plural(count: int, one: str, many: str | None = None) -> str:
    """Returns the count and its noun: `one` for 1, otherwise `many` (default: `one` with an s).

    The words may include the verb, as in plural(count, "row is", "rows are").
    """
    words = f"{one}s" if many is None else many
    return f"{count:,} {one if count == 1 else words}"


# -- Text shortened to one line of a message or table ----------------------------------------------------------------


def on_one_line(text: str) -> str:
    """Returns the text with visible line breaks."""
    return re.sub(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]", "⏎", text)


def shorten(text: str, width: int = 70) -> str:
    """Returns the text on one line of at most `width` characters."""
    text = " ".join(text.split())
    return text if len(text) <= width else text[: width - 3] + "..."


# -- Settings of where, how precisely and with which weights anything computes ---------------------------------------


Device = Literal["auto", "cpu", "cuda", "mps"]
Precision = Literal["auto", "fp32", "bf16", "fp16"]
Executor = Literal["own", "openvino", "onnxruntime", "auto"]
OWN, AUTO = "own", "auto"  # the engine of maskwright; the fastest that was measured

DEVICE = Setting("Device to compute on.", panel=HARDWARE)
PRECISION = Setting("Precision (dtype); auto is bf16 where the CPU or GPU is faster in it.", panel=HARDWARE)
EXECUTOR = Setting(
    "Program that computes the network: maskwright, or a graph that is exported once; auto measures a short text.",
    panel=HARDWARE,
)
UNTRAINED = Setting("Answer also with a head whose weights the folder lacks: they are random.")
THREADS = Setting("Number of CPU threads.", panel=HARDWARE, default_help="all", minimum=1)
