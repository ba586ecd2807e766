"""What the tests of commands share."""

from __future__ import annotations

import sys

import pytest

from maskwright.cli import main


@pytest.fixture(scope="session")
def run_once():
    """Run a command that must succeed, for what several tests look at."""

    def run(*words):
        before, sys.argv = sys.argv, ["maskwright", *map(str, words)]
        try:
            main()
        except SystemExit as finished:
            assert not finished.code
        finally:
            sys.argv = before

    return run


@pytest.fixture
def maskwright(monkeypatch, capsys):
    """Run a command in this process; returns its exit code, standard output and standard error."""

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["maskwright", *map(str, words)])
        with pytest.raises(SystemExit) as exit_of_program:
            main()
            sys.exit(0)
        captured = capsys.readouterr()
        return exit_of_program.value.code or 0, captured.out, captured.err

    return run
