"""Bulk inference: blocks cover files, parts are those of the local engine, a rerun computes only what is missing."""

from __future__ import annotations

import gzip
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from inference.samples import tiny
from maskwright import api
from maskwright.core.errors import InputError, MissingFileError, RowErrors, RunError
from maskwright.scale import bulk
from maskwright.scale import bulk as run
from maskwright.scale.bulk import Job, blocks_of, read_block, row_files

WORDS = "the man went to store and bought gallon of milk while river was high é".split()  # noqa: SIM905


def rows(count: int) -> list[dict[str, Any]]:
    """Rows of drawn words."""
    draw = random.Random(count)
    return [
        {"id": f"r{number}", "text": " ".join(draw.choices(WORDS, k=draw.randint(1, 12)))} for number in range(count)
    ]


def write_lines(path: Path, found: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in found), encoding="utf-8")
    return path


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    """A folder with a Parquet file of row groups and a file of lines."""
    folder = tmp_path / "in"
    folder.mkdir()
    found = rows(60)
    parquet.write_table(pyarrow.Table.from_pylist(found[:40]), folder / "a.parquet", row_group_size=15)
    write_lines(folder / "b.jsonl", found[40:])
    (folder / "_SUCCESS").write_text("")
    return folder


@pytest.fixture
def model(tmp_path: Path) -> Path:
    tiny(None).save(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "BLOCK_ROWS", 20)
    monkeypatch.setattr(bulk, "BLOCK_BYTES", 500)


def make_job(model: Path, output: Path | str, **changes: Any) -> Job:
    values: dict[str, Any] = {"kind": "embed", "form": "parquet", "column": "text", "pair": None, "keep": ("id",)}
    values |= {"precision": "fp32", "max_length": None, "skip_bad_rows": False}
    return Job(**{**values, "model": str(model), "model_digest": "m", "output": str(output), **changes})


def read_parts(output: Path) -> list[dict[str, Any]]:
    """The rows of all parts, in the order of their names."""
    found: list[dict[str, Any]] = []
    for path in sorted(output.glob("part-*")):
        if path.suffix == ".parquet":
            found += parquet.read_table(path).to_pylist()
        else:
            found += [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return found


def test_blocks_have_every_row_once_and_in_order(tmp_path: Path, inputs: Path):
    files = row_files([str(inputs)])
    assert [Path(file.uri).name for file in files] == ["a.parquet", "b.jsonl"]
    found = [[row.values["id"] for row in read_block(block, ["id"])] for file in files for block in blocks_of(file)]
    assert len(found) > 4 and [one for block in found for one in block] == [row["id"] for row in rows(60)]
    second = list(read_block(blocks_of(files[0])[1], ["id"]))
    assert second[0].position == int(second[0].values["id"][1:]) == 30, "row groups of 15 make blocks of 30"


@pytest.mark.parametrize("size", range(1, 60, 7))
def test_lines_are_split_anywhere(tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bulk, "BLOCK_BYTES", size)
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a": 1}\n\n{"a": 2, "b": "\xc3\xa9"}\n{"a": 3}')
    (file,) = row_files([str(path)])
    found = [row for block in blocks_of(file) for row in read_block(block, ["a"])]
    assert [(row.values["a"], row.position) for row in found] == [(1, 0), (2, 10), (3, 30)]


def test_a_packed_file_is_one_block(tmp_path: Path):
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b'{"a": 1}\n' * 200))
    (file,) = row_files([f"{tmp_path}/*.gz"])
    (block,) = blocks_of(file)
    assert len(list(read_block(block, ["a"]))) == 200


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_vectors_are_those_of_the_local_engine(tmp_path: Path, inputs: Path, model: Path, here: list[str], form: str):
    manifest = run.run(make_job(model, tmp_path / "out", form=form), [str(inputs)], None, "cpu")
    found, given = read_parts(tmp_path / "out"), rows(60)
    expected = api.open_embedder(model, device="cpu", precision="fp32").vectors([row["text"] for row in given])
    assert [row["id"] for row in found] == [row["id"] for row in given]
    assert np.abs(np.array([row["vector"] for row in found]) - expected).max() < 1e-5
    assert manifest["rows"] == 60 and json.loads((tmp_path / "out/_manifest.json").read_text()) == manifest | {
        "job": json.loads(json.dumps(manifest["job"]))
    }


def test_predictions_are_those_of_the_local_engine(tmp_path: Path, inputs: Path, here: list[str]):
    classifier = tiny("classification", labels=["a", "b"])
    classifier.save(tmp_path / "model", facts={"task": "classification", "labels": ["a", "b"]})
    run.run(make_job(tmp_path / "model", tmp_path / "out", kind="predict", form="jsonl"), [str(inputs)], None, "cpu")
    found = read_parts(tmp_path / "out")
    expected = api.open_predictor(tmp_path / "model", device="cpu", precision="fp32").predict(
        [row["text"] for row in rows(60)]
    )
    assert [row["label"] for row in found] == [row["label"] for row in expected]
    assert [row["score"] for row in found] == pytest.approx([row["score"] for row in expected], abs=1e-5)


def test_a_rerun_computes_what_is_missing_and_leaves_the_rest(
    tmp_path: Path, inputs: Path, model: Path, here: list[str]
):
    given = make_job(model, tmp_path / "out")
    first = run.run(given, [str(inputs)], None, "cpu")
    gone, half, *_ = sorted((tmp_path / "out").glob("part-*"))
    gone.unlink()
    (tmp_path / "out/_done" / f"{half.name}.json").unlink()  # the worker died before it noted the part
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("part-*")}
    here.clear()
    assert run.run(given, [str(inputs)], None, "cpu") == first
    assert sorted(here) == [gone.name, half.name]
    assert all(path.stat().st_mtime_ns == times[path] for path in times if path != half)
    here.clear()
    run.run(given, [str(inputs)], None, "cpu")
    assert here == []


def test_results_of_other_settings_are_not_mixed(tmp_path: Path, inputs: Path, model: Path, here: list[str]):
    run.run(make_job(model, tmp_path / "out"), [str(inputs)], None, "cpu")
    with pytest.raises(RunError, match="has results of other inputs, settings or another model .* another folder"):
        run.run(make_job(model, tmp_path / "out", max_length=8), [str(inputs)], None, "cpu")


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ('{"id": "x"}', "column 'text': the text is missing"),
        ('{"id": "x", "text": 3}', "column 'text': is a number, not text"),
        ("{", "not valid JSON"),
    ],
)
def test_bad_rows_are_named_or_skipped_and_counted(tmp_path: Path, model: Path, here: list[str], row: str, reason: str):
    path = write_lines(tmp_path / "a.jsonl", rows(3))
    place = path.stat().st_size
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{row}\n")
    with pytest.raises(RowErrors, match=rf"a\.jsonl, byte:{place}: .*{reason}") as caught:
        run.run(make_job(model, tmp_path / "out"), [str(path)], None, "cpu")
    assert "--skip-bad-rows" in str(caught.value) and not (tmp_path / "out/_manifest.json").exists()
    found = run.run(make_job(model, tmp_path / "out", skip_bad_rows=True), [str(path)], None, "cpu")
    assert (found["rows"], found["skipped"]) == (3, 1) and len(read_parts(tmp_path / "out")) == 3


def test_a_read_that_fails_is_repeated(tmp_path: Path, model: Path, here: list[str], monkeypatch: pytest.MonkeyPatch):
    path, fails = write_lines(tmp_path / "a.jsonl", rows(3)), [True, True, False]

    def flaky(*arguments: Any) -> Any:
        if fails.pop(0):
            raise OSError("connection reset")
        return read_block(*arguments)

    monkeypatch.setattr(bulk, "read_block", flaky)
    assert run.run(make_job(model, tmp_path / "out"), [str(path)], None, "cpu")["rows"] == 3
    fails[:] = [True] * 4
    with pytest.raises(InputError, match=r"a\.jsonl failed 4 times: connection reset"):
        run.run(make_job(model, tmp_path / "other"), [str(path)], None, "cpu")


def test_addresses_of_fsspec_are_read_and_written(tmp_path: Path, inputs: Path, model: Path, here: list[str]):
    run.run(make_job(model, tmp_path / "plain"), [str(inputs)], None, "cpu")
    run.run(make_job(model, f"local://{tmp_path}/out"), [f"local://{inputs}"], None, "cpu")
    assert read_parts(tmp_path / "out") == read_parts(tmp_path / "plain")


WRONG: dict[str, tuple[Callable[[Path], str], type[Exception], str]] = {
    "absent": (lambda folder: f"{folder}/no.parquet", MissingFileError, "does not exist"),
    "empty folder": (str, MissingFileError, r"has no \.parquet and no \.jsonl files"),
    "other kind": (lambda folder: __file__, InputError, r"neither a \.parquet nor a \.jsonl file"),
    "other address": (lambda folder: "ftq://host/a.jsonl", InputError, "address of an unknown kind"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_read_is_named(tmp_path: Path, case: str):
    name, error, sentence = WRONG[case]
    with pytest.raises(error, match=sentence):
        row_files([name(tmp_path)])


DRIVER = """
import sys, os, signal, threading, time
from pathlib import Path
import maskwright.scale.bulk as driver
output, mode, model, inputs = sys.argv[1:]
driver.BLOCK_ROWS = 64

class Watched(driver.BlockWorker):
    def compute(self, item):
        flag = Path(output).with_name("died")
        if mode == "worker dies" and not flag.exists():
            flag.write_text("")
            os.kill(os.getpid(), signal.SIGKILL)
        if mode == "slow":
            time.sleep(1.0)
        return super().compute(item)

driver.BlockWorker = Watched
given = driver.Job("embed", model, "m", output, "parquet", "text", None, ("id",), "fp32", None, False)
print(driver.run(given, [inputs], 1, "cpu")["rows"])
"""


def drive(tmp_path: Path, mode: str, model: Path) -> subprocess.Popen[str]:
    """Start a bulk inference in another process, whose Ray ends with it."""
    command = [sys.executable, "-c", DRIVER, f"{tmp_path}/out", mode, str(model), f"{tmp_path}/rows.parquet"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.mark.slow
def test_with_ray_a_killed_driver_is_resumed_and_a_killed_worker_replaced(tmp_path: Path, model: Path):
    pytest.importorskip("ray.data", reason="the extra 'scale' is not installed")
    given = rows(512)
    parquet.write_table(pyarrow.Table.from_pylist(given), tmp_path / "rows.parquet", row_group_size=64)
    expected = api.open_embedder(model, device="cpu", precision="fp32").vectors([row["text"] for row in given])

    driver = drive(tmp_path, "slow", model)
    done = tmp_path / "out" / "_done"
    end = time.monotonic() + 120
    while len(list(done.glob("*.json"))) < 2:
        assert time.monotonic() < end and driver.poll() is None
        time.sleep(0.1)
    os.kill(driver.pid, signal.SIGKILL)
    driver.wait()
    time.sleep(3)  # the workers notice it
    before = {path.name: path.stat().st_mtime_ns for path in done.glob("*.json")}
    assert 2 <= len(before) < 8
    again = drive(tmp_path, "worker dies", model)
    output, _ = again.communicate(timeout=240)
    assert again.returncode == 0 and f"{len(before)} of 8 parts were finished before" in output, output
    assert all((done / name).stat().st_mtime_ns == at for name, at in before.items())
    assert (tmp_path / "died").exists()
    found = read_parts(tmp_path / "out")
    assert [row["id"] for row in found] == [row["id"] for row in given]
    assert np.abs(np.array([row["vector"] for row in found]) - expected).max() < 1e-5
