"""Error messages and exit codes of the recipes, as in the commands."""

from __future__ import annotations

from collections.abc import Callable

from maskwright.core.program import run_program


def run_main(main: Callable[[], None]) -> None:
    """Run a recipe. Ends with 2 and a sentence for what the user can fix, with 130 where it was interrupted."""
    run_program(main, stopped="Stopped. Rerun the same command to resume.", traceback=True)
