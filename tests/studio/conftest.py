"""What the tests of the studio share."""

from __future__ import annotations

import sys

import pytest

from maskwright.cli import main


@pytest.fixture
def maskwright_command(monkeypatch, capsys):
    """Run a command in this process; returns its exit code, standard output and standard error."""

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["maskwright", *map(str, words)])
        with pytest.raises(SystemExit) as exit_of_program:
            main()
            sys.exit(0)
        captured = capsys.readouterr()
        return exit_of_program.value.code or 0, captured.out, captured.err

    return run
