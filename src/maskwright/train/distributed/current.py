"""The processes that this one belongs to: joined once, by the command line or by a training called from Python."""

from __future__ import annotations

import io
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import torch

from ...core.errors import ConfigError, as_user_error
from ...core.memory import map_large_blocks
from ...core.program import Launch, launch_of
from ...core.progress import be_silent, note
from ...core.util import plural
from .group import FAILED_SECONDS, ConnectError, Group, ProcessGroup
from .watch import peer_error

_joined: ProcessGroup | None = None


@contextmanager
def joined(output: Path, device: torch.device) -> Iterator[Group]:
    """The processes of this training, from the launcher's environment variables; a single one without a launcher.

    output: the run folder. An error in one process ends the others. Notes, warnings and progress are printed by the
    first process only.
    """
    launch = launch_of()
    if launch is None or launch.world == 1:
        if launch is not None:
            _check_single(launch, output)
        yield Group()
        return
    with member(launch) as group:
        group.open(device)
        yield group


@contextmanager
def member(launch: Launch) -> Iterator[ProcessGroup]:
    """This process as a member of its group; inside another such block, of the same one."""
    global _joined
    if _joined is not None:
        yield _joined
        return
    _joined = group = ProcessGroup(launch)
    try:
        if group.is_main:
            yield group
        else:
            with be_silent(warnings=True):
                yield group
        group.from_main(lambda: None)  # nobody leaves before the first process has finished
    except KeyboardInterrupt:
        failure = group.interrupted()
        group.record.announce(failure)
        group.leave(FAILED_SECONDS)
        if failure.text:
            raise peer_error(failure) from None
        raise
    except Exception as error:
        known = as_user_error(error)
        name = "error" if known is not None else f"internal error: {type(error).__name__}"
        failure = group.fail(f"{name}: {launch}: {known or error}", 1 if known is None else known.exit_code)
        group.record.announce(failure)
        group.leave(FAILED_SECONDS)
        raise
    else:
        group.close()
    finally:
        _joined = None


def check_processes(config: Any, group: Group) -> None:
    """Raise ConfigError when a step has fewer micro-batches than there are processes.

    config: with `accumulation`, the number of micro-batches, and `shard`: then freed memory is returned from now on.
    """
    if group.world > 1 and getattr(config, "shard", False):
        map_large_blocks()
    if group.world == 1 and getattr(config, "shard", False):
        note("--shard has no effect in a single process.")
    if config.accumulation < group.world:
        raise ConfigError(
            f"A step has {plural(config.accumulation, 'micro-batch', 'micro-batches')}, fewer than the {group.world} "
            f"processes: pass --accumulation {group.world} (with --restart for a run that has begun), or start fewer "
            "processes."
        )
    if config.accumulation % group.world:
        note(
            f"{config.accumulation} micro-batches are dealt to {group.world} processes: some compute more than others. "
            f"A multiple of {group.world} as --accumulation keeps all busy."
        )


def _check_single(launch: Launch, output: Path) -> None:
    """Raise ConfigError for torchrun with a single process, unless it resumes a run (an elastic launcher shrinks)."""
    if launch.is_torchrun and not (output / "config.toml").exists():
        raise ConfigError(
            "torchrun started a single process: pass --nproc-per-node N before -m, or run maskwright without torchrun."
        )


# -- Runs a command as one of several processes: one message for all, and one output ---------------------------------


def run_member(launch: Launch, command: Callable[[], int], *, debug: bool) -> NoReturn:
    """Run `command`, which returns its exit code, and exit. Standard output is that of the first process.

    debug: print the traceback of an error. The process ends without Python's clean-up, which could wait for threads of
    a broken connection.
    """
    if launch.rank:
        sys.stdout = io.StringIO()
    group = None
    try:
        with member(launch) as group:
            code = command()
    except KeyboardInterrupt:  # of a signal, or by the watch while another error was handled
        code = 130 if group is None or group.watch.failure is None else group.watch.failure.code
    except Exception as error:
        known = as_user_error(error)
        code = 1 if known is None else known.exit_code
        if debug:
            traceback.print_exc()
        if isinstance(error, ConnectError):
            print(f"error: {error}", file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
