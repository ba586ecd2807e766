"""How a program ends: exit codes, signals, a reader that has gone; its progress and its memory."""

import errno
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import torch

from maskwright.core import progress
from maskwright.core.errors import ConfigError, InputError, OutOfMemoryError, RowError, RowErrors, as_user_error
from maskwright.core.memory import STATUS, peak_memory
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
    assert ended.value.code == code and capsys.readouterr().err.startswith(said)


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
        assert process.wait(30) == 130 and process.stderr.read() == "Stopped.\n"


@POSIX
def test_a_reader_that_has_gone_is_no_error():
    code = "def main():\n    for number in range(10**6):\n        print(number)\nrun_program(main)"
    with started(code) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(30) == 0 and process.stderr.read() == ""


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
    assert launch_of({}) is None and launch_of({"RANK": "0"}) is None


def test_the_variables_of_torchrun_are_read():
    launch = launch_of(TORCHRUN)
    assert launch is not None
    assert (launch.rank, launch.world, launch.local_rank, launch.host, launch.port) == (3, 4, 1, "node1", 29400)
    assert launch.is_torchrun and launch.has_store and launch.attempt == 1
    assert not launch.is_one_machine and str(launch) == "process 3 of 4"


@pytest.mark.parametrize(("rank", "world"), [("4", "4"), ("0", "0"), ("-1", "2"), ("one", "2"), ("0", "two")])
def test_impossible_numbers_are_rejected(rank: str, world: str):
    with pytest.raises(ConfigError, match="torchrun"):
        launch_of({"RANK": rank, "WORLD_SIZE": world})


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(progress, "_quiet", False)  # whatever a test before this one left
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_a_resumed_job_counts_its_rate_from_where_it_began(clock: list[float], capsys: pytest.CaptureFixture[str]):
    with progress.track("training", 1000, "steps", begin=600) as job:
        clock[0] += 20
        job.update(700, "loss 2.0")
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err == "training: 700/1,000 steps, 5.0/s, 1:00 left; loss 2.0\n"


def test_lines_come_every_ten_seconds_and_never_when_quiet(clock: list[float], capsys: pytest.CaptureFixture[str]):
    with progress.track("reading", None, "lines") as job:
        for second in range(1, 31):
            clock[0] = 100.0 + second
            job.update(second)
    assert capsys.readouterr().err.count("\n") == 3
    progress.set_quiet(True)
    try:
        with progress.track("reading") as job:
            clock[0] += 60
            job.update(1)
        progress.note("a note")
        progress.warn("a warning")
    finally:
        progress.set_quiet(False)
    assert capsys.readouterr().err == "warning: a warning\n"


def test_silent_blocks_of_two_threads_may_overlap(capsys):
    first, second = progress.be_silent(), progress.be_silent(warnings=True)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    progress.note("unseen")
    progress.warn("unseen")
    second.__exit__(None, None, None)
    progress.note("a note")
    progress.warn("a warning")
    assert capsys.readouterr().err == "a note\nwarning: a warning\n"


@pytest.mark.skipif(not STATUS.exists(), reason="only Linux tells a process's own peak apart")
def test_peak_memory_is_the_own_processs_not_that_of_the_one_that_started_it():
    held = np.ones(50_000_000)  # 400 MB, all touched
    code = "from maskwright.core.memory import peak_memory; print(peak_memory())"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 1e7 < int(run.stdout) < held.nbytes < peak_memory()


# -- Freed memory goes back to the system -----------------------------------------------------------------------------

GAPS = """
import sys, numpy
from maskwright.core.memory import map_large_blocks, resident_memory
if sys.argv[1] == "map":
    map_large_blocks()
del (first := [numpy.ones(3 << 20)])[:]  # 24 MB: from now on, glibc keeps smaller blocks in its heap
before = resident_memory()
large, small = [], []
for _ in range(20):
    large.append(numpy.ones(1 << 20))  # 8 MB
    small.append(bytearray(100_000))
large.clear()
print((resident_memory() - before) >> 20)
"""


def kept(how: str, **environment: str) -> int:
    """Megabytes that stay after 160 MB were freed between blocks in use."""
    command = [sys.executable, "-c", GAPS, how]
    found = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **environment})
    return int(found.stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's behavior")
def test_large_blocks_are_returned_unless_the_environment_decides():
    if (heap := kept("heap")) < 100:
        pytest.skip(f"this C library keeps {heap} MB only")
    assert kept("map") < 20 and kept("map", MALLOC_MMAP_THRESHOLD_=str(32 << 20)) > 100
