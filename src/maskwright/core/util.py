"""Small functions of every part: CPU cores, the cache, counts and texts of messages, settings of the device."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Literal

from .config import HARDWARE, Setting

# -- The machine: CPU cores this process may use, the folder of its cache --------------------------------------------


def usable_cores() -> int:
    """Returns the CPU cores this process may run on (its CPU affinity), at most those of the machine."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


def cache_folder(kind: str) -> Path:
    """Returns the user's folder for one kind of files that can be made again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "maskwright" / kind


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
