"""How a program ends: exit codes, sentences, signals, and a reader that has gone."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys

import pytest
import torch

from maskwright.core.errors import (
    ConfigError,
    InputError,
    OutOfMemoryError,
    RowError,
    RowErrors,
    as_user_error,
)
from maskwright.core.program import launch_of, run_program

POSIX = pytest.mark.skipif(os.name == "nt", reason="signals and pipes of POSIX")


def fails_with(error: BaseException):
    def main():
        raise error

    return main


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (ConfigError("--lr is odd."), 2, "error: --lr is odd."),
        (MemoryError(), 2, "error: Out of memory: use a smaller batch"),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 GiB"), 2, "error: Out of memory"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), 2, "error: Out of memory"),
        (RuntimeError("could not create a primitive"), 2, "error: Out of memory"),  # oneDNN
        (FileNotFoundError(errno.ENOENT, "No such file or directory", "runs/a/run.json"), 2, "error: runs/a/run.json:"),
        (PermissionError(errno.EACCES, "Permission denied", "x"), 2, "error: x: Permission denied; check the perm"),
        (OSError(errno.ENOSPC, "No space left on device"), 2, "error: The output cannot be written: No space left"),
        (ValueError("embedded null byte"), 2, "error: A path contains a NUL character"),
        (ValueError("a fault of ours"), 1, "internal error: ValueError: a fault of ours"),
        (KeyError("x"), 1, "internal error"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_every_end_has_its_code_and_its_sentence(error: BaseException, code: int, said: str, capsys):
    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(SystemExit) as ended:
            run_program(fails_with(error))
    finally:
        signal.signal(signal.SIGTERM, before)
    assert ended.value.code == code
    assert capsys.readouterr().err.startswith(said)


def test_what_torch_itself_raises_is_known():
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 60)
    assert isinstance(as_user_error(caught.value), OutOfMemoryError)
    assert as_user_error(RuntimeError("another one")) is None


def test_a_long_message_keeps_its_beginning_and_its_end():
    text = str(InputError("The labels " + "x, " * 99_999 + "are not all different."))
    assert len(text) < 4100 and text.startswith("The labels x") and text.endswith("are not all different.")
    assert "296,030 characters" in text
    rows = RowErrors([RowError("a.tsv", line, "label", f"{line} is " + "bad " * 10_000) for line in range(1, 999)])
    assert len(str(rows)) < 51 * 700 and "a.tsv:50" in str(rows) and len(rows.rows) == 998
    assert "a.tsv:51" not in str(rows) and str(rows).endswith("and 948 more")
    same = RowErrors([RowError("a.tsv", line, "label", "bad " * 10_000) for line in range(1, 999)])  # one line for all
    assert len(str(same)) < 2 * 700 and str(same).count("a.tsv") == 1 and "998 rows: lines 1, 2, 3" in str(same)


def started(code: str, **options) -> subprocess.Popen:
    program = f"from maskwright.core.program import run_program\n{code}"
    return subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )


@POSIX
def test_sigterm_ends_without_a_traceback():
    wait = "import time\ndef main():\n    print('ready', flush=True)\n    time.sleep(60)"
    code = f"{wait}\nrun_program(main, stopped='Stopped.')"
    with started(code) as process:
        assert process.stdout.readline() == "ready\n"
        process.terminate()
        assert process.wait(30) == 130
        assert process.stderr.read() == "Stopped.\n"


@POSIX
def test_a_reader_that_has_gone_is_no_error():
    code = "def main():\n    for number in range(10**6):\n        print(number)\nrun_program(main)"
    with started(code) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(30) == 0
        assert process.stderr.read() == ""


@POSIX
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="/dev/full is of Linux")  # noqa: PTH110
def test_a_full_disk_of_standard_output_is_reported():
    with open("/dev/full", "w") as full:  # noqa: PTH123
        process = subprocess.run(
            [sys.executable, "-c", "from maskwright.core.program import run_program\nrun_program(lambda: print(1))"],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert process.returncode == 2
    assert process.stderr.startswith("error: The output cannot be written: No space left")


# -- The launch that environment variables describe -------------------------------------------------------------------

TORCHRUN = {
    "RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "node1",
    "MASTER_PORT": "29400", "TORCHELASTIC_RUN_ID": "none", "TORCHELASTIC_USE_AGENT_STORE": "True",
    "TORCHELASTIC_RESTART_COUNT": "1",
}  # fmt: skip


def test_without_a_launcher_there_is_no_launch():
    assert launch_of({}) is None
    assert launch_of({"RANK": "0"}) is None


def test_the_variables_of_torchrun_are_read():
    launch = launch_of(TORCHRUN)
    assert launch is not None
    assert (launch.rank, launch.world, launch.local_rank, launch.host, launch.port) == (3, 4, 1, "node1", 29400)
    assert launch.is_torchrun and launch.has_store and launch.attempt == 1
    assert not launch.is_one_machine
    assert str(launch) == "process 3 of 4"


@pytest.mark.parametrize(("rank", "world"), [("4", "4"), ("0", "0"), ("-1", "2"), ("one", "2"), ("0", "two")])
def test_impossible_numbers_are_rejected(rank: str, world: str):
    with pytest.raises(ConfigError, match="torchrun"):
        launch_of({"RANK": rank, "WORLD_SIZE": world})
