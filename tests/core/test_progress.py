"""Progress lines: on standard error, with a rate that counts only what this start did."""

from __future__ import annotations

import pytest

from maskwright.core import progress


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, to be set by the test."""
    now = [100.0]
    monkeypatch.setattr(progress, "_quiet", False)  # whatever a test before this one left
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_a_resumed_job_counts_its_rate_from_where_it_began(clock: list[float], capsys: pytest.CaptureFixture[str]):
    with progress.track("training", 1000, "steps", begin=600) as job:
        clock[0] += 20
        job.update(700, "loss 2.0")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "training: 700/1,000 steps, 5.0/s, 1:00 left; loss 2.0\n"


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
