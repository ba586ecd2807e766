"""Exit codes and one-sentence errors of a program, and the processes that a launcher describes in the environment."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FrameType
from typing import NoReturn

from .errors import ConfigError, as_user_error

# -- Exit codes and one-sentence errors for the command line, recipes and examples -----------------------------------


def run_program(main: Callable[[], object], *, debug: bool = False, stopped: str = "", traceback: bool = False) -> None:
    """Runs `main` and exits: 0 done, 1 internal error, 2 invalid input or usage, 130 interrupted.

    SIGTERM is handled like Ctrl-C, so unfinished files are removed. A closed output pipe (`| head`) exits with 0.

    Args:
        debug: Show the traceback of an error.
        stopped: Message for an interruption.
        traceback: Show the traceback of an internal error, for programs without --debug.
    """
    try:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, _interrupt)  # training replaces this: it saves on both signals
        try:
            main()
        finally:
            sys.stdout.flush()  # while a full disk or a closed pipe can still be reported
    except KeyboardInterrupt:
        if stopped:
            _say(stopped)
        sys.exit(130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # otherwise Python fails again at exit
        sys.exit(0)
    except Exception as error:
        if debug:
            raise
        known = as_user_error(error)
        if known is not None:
            _say(f"error: {known}")
            sys.exit(known.exit_code)
        if traceback:
            raise
        _say(
            f"internal error: {type(error).__name__}: {error}\n"
            "This is a bug in maskwright, not in your input. Run it again with --debug and report the output."
        )
        sys.exit(1)


def _say(message: str) -> None:
    print(message, file=sys.stderr)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


# -- The processes of one training, as a launcher such as torchrun describes them in environment variables. No torch


@dataclass(frozen=True)
class Launch:
    """This process among those that the launcher started.

    Attributes:
        rank: Its number, from 0.
        world: Number of processes.
        local_rank: Its number on its machine.
        local_world: Number of processes on its machine.
        host, port: Where the processes meet.
        attempt: Number of restarts by the launcher.
        has_store: Whether the launcher serves the meeting point itself, as torchrun does.
        is_torchrun: Whether torchrun started it.
    """

    rank: int
    world: int
    local_rank: int
    local_world: int
    host: str
    port: int
    attempt: int
    has_store: bool
    is_torchrun: bool

    @property
    def is_one_machine(self) -> bool:
        """Whether all processes are on this machine."""
        return self.local_world == self.world

    def __str__(self) -> str:
        return f"process {self.rank} of {self.world}"


def launch_of(environment: Mapping[str, str] | None = None) -> Launch | None:
    """The launch that the environment describes; None without a launcher. Raises ConfigError for wrong values."""
    found = os.environ if environment is None else environment
    if "RANK" not in found or "WORLD_SIZE" not in found:
        return None
    rank, world = _number(found, "RANK"), _number(found, "WORLD_SIZE")
    local = _number(found, "LOCAL_RANK", rank)
    launch = Launch(
        rank=rank,
        world=world,
        local_rank=local,
        local_world=_number(found, "LOCAL_WORLD_SIZE", world),
        host=found.get("MASTER_ADDR", "127.0.0.1"),
        port=_number(found, "MASTER_PORT", 29500),
        attempt=_number(found, "TORCHELASTIC_RESTART_COUNT", 0),
        has_store=found.get("TORCHELASTIC_USE_AGENT_STORE") == "True",
        is_torchrun="TORCHELASTIC_RUN_ID" in found,
    )
    if world < 1 or rank >= world:
        raise ConfigError(f"RANK is {rank} and WORLD_SIZE is {world}: start all processes with torchrun.")
    return launch


def num_processes() -> int:
    """The number of processes of this training; 1 without a launcher."""
    launch = launch_of()
    return 1 if launch is None else launch.world


def _number(environment: Mapping[str, str], name: str, default: int | None = None) -> int:
    value = environment.get(name)
    if value is None and default is not None:
        return default
    if value is None or not value.isdecimal():
        raise ConfigError(f"The environment variable {name} is {value!r}, not a number: start all with torchrun.")
    return int(value)
