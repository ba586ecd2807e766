"""Complete or absent, whatever call fails; a changed file is found and named."""

import errno
import json
import multiprocessing
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from failing_disk import FailingFileSystem
from maskwright.core import storage
from maskwright.core.errors import CorruptFileError, InputError, RunError, StorageError


def fill(folder: Path, text: str) -> None:
    with storage.new_folder(folder, replace=True) as new:
        storage.write_text(new / "a.txt", text)
        storage.write_json(new / "b.json", {"text": text})


def calls_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    counting = FailingFileSystem(fail_at=0)
    monkeypatch.setattr(storage, "fs", counting)
    fill(tmp_path / "count", "x")
    return counting.calls


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EACCES])
def test_every_failing_call_leaves_the_old_or_the_new_folder_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
):
    needed = calls_needed(tmp_path, monkeypatch)
    assert needed > 10
    for fail_at in range(1, needed + 1):
        target = tmp_path / f"at-{fail_at}"
        monkeypatch.setattr(storage, "fs", storage.FileSystem())
        fill(target, "old")
        monkeypatch.setattr(storage, "fs", FailingFileSystem(fail_at, code))
        with pytest.raises(StorageError, match="Cannot write"):
            fill(target, "new")
        storage.verify_folder(target)
        assert (target / "a.txt").read_text() in ("old", "new")
        assert json.loads((target / "b.json").read_text())["text"] == (target / "a.txt").read_text()


def test_a_file_that_cannot_be_written_keeps_its_old_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "file.txt"
    storage.write_text(path, "old")
    for fail_at in range(1, 4):
        monkeypatch.setattr(storage, "fs", FailingFileSystem(fail_at))
        with pytest.raises(StorageError, match="No space left"):
            storage.write_text(path, "new")
        assert path.read_text() == "old" and [entry.name for entry in tmp_path.iterdir()] == ["file.txt"]


def test_an_invalid_path_is_reported_with_a_fix(tmp_path: Path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageError, match="a part of the path is a file; choose another path"):
        storage.write_text(tmp_path / "file" / "a.txt", "new")
    with pytest.raises(StorageError, match="a folder has that name; choose another one"):
        storage.write_text(tmp_path, "new")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_changed_bit_or_cut_is_found_and_named(tmp_path: Path, data: st.DataObject):
    folder = tmp_path / "folder"
    fill(folder, "some text that is long enough")
    victim = folder / data.draw(st.sampled_from(["a.txt", "b.json"]))
    content = bytearray(victim.read_bytes())
    if data.draw(st.booleans()):
        bit = data.draw(st.integers(0, len(content) * 8 - 1))
        content[bit // 8] ^= 1 << (bit % 8)
    else:
        del content[data.draw(st.integers(0, len(content) - 1)) :]
    victim.write_bytes(content)
    with pytest.raises(CorruptFileError, match=victim.name):
        storage.verify_folder(folder)


def test_an_existing_folder_is_not_overwritten_silently(tmp_path: Path):
    fill(tmp_path / "folder", "x")
    with pytest.raises(RunError, match="already exists"), storage.new_folder(tmp_path / "folder"):
        raise AssertionError("must not be entered")


def test_only_what_was_written_here_is_replaced(tmp_path: Path):
    fill(tmp_path / "own", "old")
    storage.refuse_existing(tmp_path / "own", replace=True)
    texts = tmp_path / "texts"
    texts.mkdir()
    (texts / "book.txt").write_text("mine")
    for path in (texts, texts / "book.txt"):
        with pytest.raises(RunError, match="is not replaced"), storage.new_folder(path, replace=True):
            raise AssertionError("must not be entered")
    assert (texts / "book.txt").read_text() == "mine"


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "a/../../b", "link/inside"])
def test_no_path_leads_out_of_its_folder(tmp_path: Path, name: str):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path)
    with pytest.raises(InputError, match="is outside"):
        storage.inside(folder, name)


def _hold(folder: str, held: Any, leave: Any) -> None:
    with storage.lock(folder):
        held.set()
        leave.wait(20)


def test_a_second_process_is_refused_and_a_killed_holder_leaves_no_lock(tmp_path: Path):
    context = multiprocessing.get_context("spawn")
    held, leave = context.Event(), context.Event()
    holder = context.Process(target=_hold, args=(str(tmp_path), held, leave))
    holder.start()
    assert held.wait(60)
    with pytest.raises(RunError, match=f"process {holder.pid}"), storage.lock(tmp_path):
        pass
    holder.kill()
    holder.join()
    with storage.lock(tmp_path):
        pass


def test_leftovers_of_killed_writers_are_removed(tmp_path: Path):
    (tmp_path / ".step-5.tmp-99").mkdir()
    (tmp_path / ".file.tmp-7").touch()
    (tmp_path / "kept").touch()
    storage.remove_leftovers(tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["kept"]


def die_while_writing(write: Callable[[], None]) -> None:
    """Run `write` in a forked process, which is killed without any clean-up where `write` calls os.kill."""
    child = os.fork()
    if child == 0:
        try:
            write()
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


CAN_FORK = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks the writer, which this system cannot")


@CAN_FORK
def test_what_a_killed_writer_of_a_file_left_is_removed_by_the_next(tmp_path: Path):
    def write() -> None:
        with storage.open_new(tmp_path / "out.jsonl") as handle:
            handle.write(b"half")
            die()

    for _ in range(2):
        die_while_writing(write)
        assert len(storage.locking.unfinished(tmp_path / "out.jsonl")) == 1, "of earlier ones nothing is left"
    (tmp_path / ".other.jsonl.tmp-7").write_text("another file's", encoding="utf-8")
    (tmp_path / ".out.jsonl.tmp-mine").write_text("not made by a writer", encoding="utf-8")
    storage.write_text(tmp_path / "out.jsonl", "whole")
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"out.jsonl", ".other.jsonl.tmp-7", ".out.jsonl.tmp-mine"}


@CAN_FORK
def test_what_a_killed_writer_of_a_folder_left_is_removed_by_the_next(tmp_path: Path):
    def write() -> None:
        with storage.new_folder(tmp_path / "m") as new:
            storage.write_text(new / "a.txt", "half")
            die()

    die_while_writing(write)
    assert len(list(tmp_path.iterdir())) == 1
    fill(tmp_path / "m", "whole")
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


@CAN_FORK
def test_a_folder_that_was_moved_away_by_a_killed_writer_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Between the two renames of a replacement neither folder has its name."""
    fill(tmp_path / "m", "old")

    class Dying(storage.FileSystem):
        def rename(self, source: Path, target: Path) -> None:
            super().rename(source, target)
            if ".old-" in target.name:
                die()

    def write() -> None:
        storage.fs = Dying()
        fill(tmp_path / "m", "new")

    die_while_writing(write)
    assert not (tmp_path / "m").exists()
    storage.recover_folder(tmp_path / "m")
    assert (tmp_path / "m" / "a.txt").read_text() == "old"
    fill(tmp_path / "m", "new")
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_what_a_living_writer_is_writing_stays(tmp_path: Path):
    path = tmp_path / "out.txt"
    with storage.open_new(path) as first:
        first.write(b"first")
        with storage.open_new(path) as second:
            second.write(b"second")
        assert path.read_bytes() == b"second"
        storage.locking.remove_stale(path)
    assert path.read_bytes() == b"first"
    with storage.new_folder(tmp_path / "m") as new:
        storage.locking.remove_stale(tmp_path / "m")
        storage.write_text(new / "a.txt", "x")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["m", "out.txt"]


def test_a_new_file_that_another_thread_replaces_before_it_is_locked_stays_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """One thread takes the new file for a killed writer's and removes it, and a third creates its own of that name."""

    class Raced(storage.FileSystem):
        def open(self, path: Path, mode: str):
            handle = super().open(path, mode)
            if path.name.endswith("-0"):
                path.unlink()
                path.touch()
            return handle

    monkeypatch.setattr(storage, "fs", Raced())
    storage.write_bytes(tmp_path / "facts.json", b"{}")
    assert (tmp_path / "facts.json").read_bytes() == b"{}"
    assert len(list(tmp_path.iterdir())) == 2, "the third one's file stays"


def test_an_object_with_a_checksum_is_read_back_or_found_changed(tmp_path: Path):
    value = {"a": [1, 2.5, None], "name": "Zoë \ud800", "b": {"c": True}}
    storage.write_checked_json(tmp_path / "x.json", value)
    assert storage.read_checked_json(tmp_path / "x.json") == value
    text = (tmp_path / "x.json").read_text()
    for changed in (text.replace("2.5", "2.6"), text.replace("sha256", "sha255"), "[]", "{", ""):
        (tmp_path / "x.json").write_text(changed)
        with pytest.raises(CorruptFileError, match=r"x\.json .* Do this\."):
            storage.read_checked_json(tmp_path / "x.json", "Do this.")


def test_a_folder_that_vanishes_is_reported(tmp_path: Path):
    (tmp_path / "run").mkdir()
    with pytest.raises(StorageError, match="was moved or removed"), storage.open_new(tmp_path / "run" / "a.txt"):
        shutil.rmtree(tmp_path / "run")
    with pytest.raises(StorageError, match="was moved or removed"):
        storage.append_line(tmp_path / "run" / "metrics.jsonl", "{}")
