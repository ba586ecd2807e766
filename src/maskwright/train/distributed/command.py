"""Runs a command as one of several processes: one message for all, and one output."""

from __future__ import annotations

import io
import os
import sys
import traceback
from collections.abc import Callable
from typing import NoReturn

from ...core.errors import as_user_error
from ...core.processes import Launch
from .collectives import ConnectError
from .current import member


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
