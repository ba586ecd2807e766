"""The confined process: what it cannot do even if a file were in command of it, and what its parent then says."""

import json
import os
import time
from pathlib import Path

import pytest

from core import hostile_work
from maskwright.core import isolation
from maskwright.core.errors import CorruptFileError
from maskwright.core.isolation import BadFile, Limits, isolated
from maskwright.hub import pickled as reader

LIMITS = Limits(memory_bytes=256 << 20, cpu_seconds=5, wall_seconds=60)


@pytest.fixture(autouse=True)
def hostile(monkeypatch):
    folder = str(Path(hostile_work.__file__).parent)
    monkeypatch.setattr(isolation, "_START", f"import sys; sys.path.append({folder!r}); {isolation._START}")


@pytest.fixture
def file(tmp_path):
    (tmp_path / "weights.bin").write_bytes(b"some bytes")
    return tmp_path / "weights.bin"


def answer_of(work, file, limits=LIMITS) -> bytes:
    with file.open("rb") as handle, isolated(f"hostile_work:{work}", handle, limits) as answer:
        return answer.read()


@pytest.mark.parametrize(
    "work, ends_with",
    [
        ("open_a_file", b"OSError"),
        ("list_a_folder", b"OSError"),
        ("open_a_socket", b"OSError"),
        ("open_a_local_socket", b"OSError"),
        ("open_a_pipe", b"OSError"),
        ("start_a_process", b"BlockingIOError"),
        ("take_much_memory", b"MemoryError"),
        ("raise_the_limits", b"ValueError"),
        ("write_to_what_it_reads", b"OSError"),
        ("change_what_it_reads", b"TypeError"),
    ],
)
def test_what_the_process_tries_fails(work, ends_with, file):
    assert answer_of(work, file) == ends_with and file.read_bytes() == b"some bytes"


def test_the_same_work_succeeds_outside(file, capfdbinary):
    """Or the test above would show nothing."""
    import io

    for work in ("open_a_file", "list_a_folder", "open_a_local_socket", "open_a_pipe", "take_much_memory"):
        out = io.BytesIO()
        getattr(hostile_work, work)(memoryview(b""), None, out)
        assert out.getvalue() == b"did it", work


def test_the_process_has_no_environment_no_heavy_library_and_no_root(file, monkeypatch):
    monkeypatch.setenv("A_SECRET", "s3cret")
    found = json.loads(answer_of("tell_what_it_has", file))
    assert "s3cret" not in json.dumps(found)
    assert set(found["environment"]) <= {"LC_CTYPE"}  # which Python itself sets
    assert found["folder"] == "/" and "" not in found["paths"]
    assert not {"torch", "numpy", "tokenizers", "site", "pickle5"} & set(found["modules"])
    if os.geteuid() == 0:
        assert found["user"] == isolation.NOBODY


@pytest.mark.parametrize(
    "work, limits, said",
    [
        ("run_forever", Limits(cpu_seconds=1), r"too many resources to read \(more than 1 seconds"),
        ("sleep", Limits(wall_seconds=1), "took longer than 1 seconds"),
        ("fail", LIMITS, "sandboxed process failed"),
    ],
)
def test_a_process_without_end_is_stopped(work, limits, said, file):
    started = time.monotonic()
    with pytest.raises(BadFile, match=said):
        answer_of(work, file, limits)
    assert time.monotonic() - started < 60


def test_the_process_is_gone_when_the_parent_gives_up(file):
    with (
        pytest.raises(KeyboardInterrupt),
        file.open("rb") as handle,
        isolated("hostile_work:sleep", handle, Limits(wall_seconds=500)),
    ):
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    "work, said",
    [
        ("say_nonsense", "invalid tensor metadata"),
        ("say_too_little", "invalid tensor metadata"),
        ("leave_early", "invalid tensor metadata"),
    ],
)
def test_an_answer_that_makes_no_sense_is_not_believed(work, said, file, monkeypatch):
    monkeypatch.setattr(reader, "WORK", f"hostile_work:{work}")
    with pytest.raises(CorruptFileError, match=said):
        reader.read_bin(file, LIMITS)


def test_a_reason_from_the_other_side_cannot_play_with_the_terminal(file, monkeypatch):
    monkeypatch.setattr(reader, "WORK", "hostile_work:a_colourful_reason")
    with pytest.raises(CorruptFileError) as caught:
        reader.read_bin(file, LIMITS)
    assert str(caught.value).isprintable() and len(str(caught.value)) < 600


def test_a_file_that_needs_more_memory_than_any_model_does_is_stopped(file):
    """A million tables inside each other's description, a byte each."""
    from hub.bin_samples import contained

    file.write_bytes(contained(b"\x80\x02" + b"}" * 1_500_000 + b".", "zip"))
    with pytest.raises(CorruptFileError, match="more memory|too much"):
        reader.read_bin(file, Limits(memory_bytes=80 << 20, cpu_seconds=30))


@pytest.mark.parametrize("kind", ["empty", "folder", "pipe"])
def test_what_is_no_file_is_refused_at_once(kind, tmp_path):
    path = tmp_path / "pytorch_model.bin"
    {"empty": path.touch, "folder": path.mkdir, "pipe": lambda: os.mkfifo(path)}[kind]()
    with pytest.raises(CorruptFileError, match="is empty or not a regular file"):
        reader.read_bin(path)


def test_a_system_without_limits_is_reported(file, monkeypatch):
    from maskwright.core.errors import InputError

    monkeypatch.setattr(isolation, "resource", None)
    with pytest.raises(InputError, match="Linux or macOS"):
        reader.read_bin(file)
