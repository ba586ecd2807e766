"""How every recipe ends: errors in a sentence, and the exit codes of the commands."""

from __future__ import annotations

import sys
from collections.abc import Callable

from maskwright.core.errors import MaskwrightError


def run_main(main: Callable[[], None]) -> None:
    """Run a recipe. Ends with 2 and a sentence for what the user can mend, with 130 where it was interrupted."""
    try:
        main()
    except MaskwrightError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("Stopped; the same command goes on from what is finished.", file=sys.stderr)
        sys.exit(130)
