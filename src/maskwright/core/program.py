"""Exit codes and one-sentence errors for the command line, recipes and examples."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

from .errors import as_user_error


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
