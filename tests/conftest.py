"""Shared set-up: hypothesis without time limits (the machine may be busy), the data folder, one thread, no fsync."""

import datetime
import json
import os
import sys
import zlib

# Test tensors are tiny: a second thread costs more than it brings, and test processes may run side by side.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

os.fsync = lambda descriptor: None  # no test cuts the power, and a busy disk takes 20 ms for each
settings.register_profile(
    "maskwright", max_examples=50, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("maskwright")
# Values would be drawn from the constants of modules imported so far, which depends on what a worker ran before.
if hasattr(providers, "_get_local_constants"):
    providers._get_local_constants = lambda: providers._local_constants


def pytest_addoption(parser):
    parser.addoption("--share", type=int, default=1, help="run one of this many shares of the slow tests, by the day")


def pytest_collection_modifyitems(config, items):
    """Keeps a fraction of the slow tests: another one each day, the same on every machine."""
    shares = config.getoption("--share")
    today = datetime.datetime.now(tz=datetime.UTC).toordinal()
    left = {
        item
        for item in items
        if item.get_closest_marker("slow") and (zlib.crc32(item.nodeid.encode()) + today) % shares
    }
    config.hook.pytest_deselected(items=list(left))
    items[:] = [item for item in items if item not in left]


@pytest.fixture(scope="session")
def data_folder():
    """The real data sets; tests that need them are skipped without them."""
    folder = os.environ.get("MASKWRIGHT_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("MASKWRIGHT_DATA does not name the folder of data sets")
    return Path(folder)


@pytest.fixture(scope="session", autouse=True)
def layers_are_compiled():
    """The C++ files are compiled before a test looks at the messages of the command that would do it first."""
    from maskwright.core.progress import be_silent
    from maskwright.nn.native.training import missing

    with be_silent():
        missing()


@pytest.fixture(autouse=True)
def notes_are_printed():
    """A command that a test calls in this process with --quiet does not silence later tests."""
    yield
    from maskwright.core.progress import set_quiet

    set_quiet(False)


@pytest.fixture(scope="session")
def run_once():
    def run(*words):
        from maskwright.cli import main

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
        from maskwright.cli import main

        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["maskwright", *map(str, words)])
        with pytest.raises(SystemExit) as exit_of_program:
            main()
            sys.exit(0)
        captured = capsys.readouterr()
        return exit_of_program.value.code or 0, captured.out, captured.err

    return run


@pytest.fixture
def as_json(maskwright):
    """Run a command with --json that must succeed; returns what it prints."""

    def run(*words):
        code, out, err = maskwright(*words, "--json")
        assert code == 0, err
        return json.loads(out)

    return run


@pytest.fixture
def refused(maskwright):
    """Run a command that must end with exit code 2, nothing on standard output, and one sentence with `said`."""

    def run(said, *words):
        code, out, err = maskwright(*words)
        told = " ".join(err.split())
        assert (code, out) == (2, "") and "error: " in told and said in told and "Traceback" not in told, err

    return run
