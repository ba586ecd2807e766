"""`python -m maskwright` and the `maskwright` command."""

import sys


def main() -> None:
    """Run the command line; Ctrl-C while it is still being loaded leaves as quietly as later."""
    try:
        from .cli import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
