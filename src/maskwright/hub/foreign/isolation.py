"""A process of its own for a file that nobody trusts: it may compute, and nothing else.

It gets the file as standard input and a pipe as standard output. It inherits no environment, imports the standard
library and this package alone, gives up root where it is that, and then lowers its limits for good: it opens no file
and no socket, starts no process, writes to no disk, and has a bounded memory and time.
"""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass
from importlib import import_module
from pathlib import Path
from typing import BinaryIO

try:
    import resource
except ImportError:  # Windows, where `isolated` refuses to start
    resource = None  # type: ignore[assignment]

from ...core.errors import InputError
from .description import BadFile

# What goes on inside: given the file's content, the file itself, and where the answer goes.
Work = Callable[[memoryview, BinaryIO, BinaryIO], None]

NOBODY = 65534
_ROOT = Path(__file__).parents[3]
_START = "import sys; sys.path.append(sys.argv[1]); from maskwright.hub.foreign.isolation import inside; inside()"


@dataclass(frozen=True)
class Limits:
    """memory_bytes: address space, beside what the file itself takes; cpu_seconds; wall_seconds."""

    memory_bytes: int = 512 << 20
    cpu_seconds: int = 60
    wall_seconds: int = 300

    @classmethod
    def for_size(cls, size: int) -> Limits:
        """What an honest file of `size` bytes needs, many times over."""
        return cls(cpu_seconds=60 + size // 20_000_000, wall_seconds=300 + size // 5_000_000)


@contextmanager
def isolated(work: str, file: BinaryIO, limits: Limits) -> Iterator[BinaryIO]:
    """Run `module:function` (a `Work`) over `file` in a process of its own; gives what it writes, to be read.

    The block raises EOFError when that ends too early, and need not know why. The process is gone when the block ends.
    Raises BadFile when it was stopped, failed, or wrote more than was read; InputError on a system that knows no such
    limits.
    """
    if resource is None:
        raise InputError("This system cannot confine a process: convert the file on Linux or macOS.")
    words = [str(_ROOT), work, *map(str, astuple(limits))]
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-B", "-c", _START, *words],
        stdin=file,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={},
        cwd="/",
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        late = threading.Event()
        timer = threading.Timer(limits.wall_seconds, _stop, (process, late))
        timer.start()
        ended = False
        try:
            with suppress(EOFError):  # what the process returns says why
                yield process.stdout  # type: ignore[misc]
                ended = True
            if process.stdout.read(1):
                raise BadFile("was read as more than it describes")
            process.wait()
        finally:
            timer.cancel()
            process.kill()
    if late.is_set() or process.returncode != 0 or not ended:
        raise BadFile(_why(process.returncode, late.is_set(), limits))


def _stop(process: subprocess.Popen[bytes], late: threading.Event) -> None:
    late.set()
    process.kill()


def _why(code: int, late: bool, limits: Limits) -> str:
    """A clause for how the process ended."""
    if late:
        return f"took longer than {limits.wall_seconds} seconds to read, and was stopped"
    if code < 0:
        return (
            f"was too much work to read (more than {limits.cpu_seconds} seconds, or too much memory), and was stopped"
        )
    return "could not be read in a confined process, which failed"


# -- in the process ----------------------------------------------------------------------------------------------


def inside() -> None:
    """What the process runs: map the file, give everything up, work."""
    module, _, function = sys.argv[2].partition(":")
    work: Work = getattr(import_module(module), function)
    limits = Limits(*map(int, sys.argv[3:]))
    data = memoryview(mmap.mmap(0, 0, access=mmap.ACCESS_READ))
    give_up(limits, len(data))
    work(data, sys.stdin.buffer, sys.stdout.buffer)
    sys.stdout.buffer.flush()
    os._exit(0)  # nothing is left to tidy up, and nothing of the file should be run by it


def give_up(limits: Limits, file_bytes: int) -> None:
    """Lower what this process may do, for good. file_bytes: the size of the mapped file."""
    if os.geteuid() == 0:
        # Limits on processes do not bind root. A container may know no other user: the rest holds there.
        with suppress(OSError):
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
    most = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_NPROC: 0,
        resource.RLIMIT_NOFILE: 0,  # what is open stays open; no file, pipe or socket is opened any more
        resource.RLIMIT_CPU: limits.cpu_seconds,
    }
    if sys.platform == "linux":  # macOS does not limit address space
        most[resource.RLIMIT_AS] = limits.memory_bytes + file_bytes
    for kind, limit in most.items():
        resource.setrlimit(kind, (limit, limit))
