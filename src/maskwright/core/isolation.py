"""Parses an untrusted file in a separate, sandboxed process.

The process reads the file from standard input and writes to a pipe. It inherits no environment, imports only the
standard library, this package and the libraries passed to it, drops root privileges, and then lowers its resource
limits permanently: no files, sockets, child processes or disk writes, and bounded memory and time.
"""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass
from importlib import import_module
from pathlib import Path
from typing import BinaryIO, cast

try:
    import resource
except ImportError:  # Windows: `isolated` raises InputError
    resource = None  # type: ignore[assignment]  # checked before use

from .errors import InputError

# The function to run: receives the file's content, the file itself and the output stream.
Work = Callable[[memoryview, BinaryIO, BinaryIO], None]

NOBODY = 65534
_ROOT = Path(__file__).parents[2]
_START = "import sys; sys.path += sys.argv[1].split('\\n'); from maskwright.core.isolation import inside; inside()"


class BadFile(Exception):
    """The reason why a file cannot be read: a clause that follows its name."""


@dataclass(frozen=True)
class Limits:
    """memory_bytes: address space in addition to that of the started process; cpu_seconds; wall_seconds."""

    memory_bytes: int = 512 << 20
    cpu_seconds: int = 60
    wall_seconds: int = 300

    @classmethod
    def for_size(cls, size: int) -> Limits:
        """Returns limits many times above what a valid file of `size` bytes needs."""
        return cls((512 << 20) + 12 * size, cpu_seconds=60 + size // 20_000_000, wall_seconds=300 + size // 5_000_000)


@contextmanager
def isolated(work: str, file: BinaryIO, limits: Limits, libraries: Sequence[str] = ()) -> Iterator[BinaryIO]:
    """Runs `module:function` (a `Work`) on `file` in a separate process and yields its output stream.

    Args:
        libraries: Folders added to the import path; the module's imports, and its function `prepare` if it has one,
            run before the limits are lowered.

    The block may raise EOFError if the output ends too early. The process has ended when the block exits.
    Raises BadFile if the process was stopped, failed, or wrote more than was read; InputError on a system without
    resource limits.
    """
    if resource is None:
        raise InputError("This system has no process limits (sandboxing): convert the file on Linux or macOS.")
    words = ["\n".join([str(_ROOT), *libraries]), work, *map(str, astuple(limits))]
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
            with suppress(EOFError):  # the exit status explains it
                yield cast("BinaryIO", process.stdout)
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
    """Returns a clause that explains how the process ended."""
    if late:
        return f"took longer than {limits.wall_seconds} seconds to read and was stopped"
    if code < 0:
        return f"took too many resources to read (more than {limits.cpu_seconds} seconds, or too much memory)"
    return "could not be read: the sandboxed process failed"


# -- in the process ----------------------------------------------------------------------------------------------


def inside() -> None:
    """Entry point of the process: maps the file, drops privileges, runs the work."""
    module, _, function = sys.argv[2].partition(":")
    imported = import_module(module)
    work: Work = getattr(imported, function)
    getattr(imported, "prepare", lambda: None)()
    limits = Limits(*map(int, sys.argv[3:]))
    data = memoryview(mmap.mmap(0, 0, access=mmap.ACCESS_READ))
    drop_privileges(limits)
    work(data, sys.stdin.buffer, sys.stdout.buffer)
    sys.stdout.buffer.flush()
    os._exit(0)  # skip cleanup handlers: no code derived from the file should run


def drop_privileges(limits: Limits) -> None:
    """Permanently lowers the limits of this process."""
    if os.geteuid() == 0:
        # Process limits do not apply to root. A container may have no other user; the other limits still apply.
        with suppress(OSError):
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
    most = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_NPROC: 0,
        resource.RLIMIT_NOFILE: 0,  # open descriptors stay open; no new file, pipe or socket
        resource.RLIMIT_CPU: limits.cpu_seconds,
    }
    if sys.platform == "linux":  # macOS does not limit address space
        pages = int(Path("/proc/self/statm").read_bytes().split()[0])
        most[resource.RLIMIT_AS] = limits.memory_bytes + pages * resource.getpagesize()
    for kind, limit in most.items():
        resource.setrlimit(kind, (limit, limit))
