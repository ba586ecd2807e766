"""benchmarks/gpu.py on a CPU with a tiny network: consistent figures, a page, reasons."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from conventions.sources import REPOSITORY
from maskwright.core.progress import set_quiet
from maskwright.models.presets import preset
from maskwright.speed.workload import forward_flops

SCRIPT = REPOSITORY / "benchmarks" / "gpu.py"


FLAGS = "--device cpu --precision fp32 --sizes tiny --minutes 30 --limit 900 --seconds 0.05 --count 60 --tokens 256"


@pytest.fixture
def rooms(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(REPOSITORY / "benchmarks" / "on_gpu"))
    monkeypatch.syspath_prepend(str(REPOSITORY / "benchmarks"))
    return importlib.import_module("gpu")


@pytest.mark.slow
def test_every_part_is_measured_from_end_to_end(rooms, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Ours alone, in one process; the network's operations are counted again."""
    flags = ["--output", str(tmp_path), "--threads", "1", "--quiet", "--only", "maskwright", *FLAGS.split()]
    monkeypatch.setattr(sys, "argv", ["gpu.py", *flags])
    try:
        rooms.main()
    finally:
        set_quiet(False)
    found = json.loads((tmp_path / "gpu.json").read_text())
    assert not found["cut"] and not [one for one in found["failed"] if one["name"] != "transformers"]
    parts = {(one["part"], one["length"]) for one in found["measured"]}
    assert parts == {("pretrain", 128), ("pretrain", 512), ("finetune", 0), ("embed", 0)}
    config = preset("bert-tiny", vocab_size=2000)
    for one in found["measured"]:
        assert one["tokens_per_second"] > 0
        assert one["flops_per_second"] == pytest.approx(one["tokens_per_second"] * one["flops_per_token"])
        if one["part"] == "pretrain":  # three passes over at most `length` tokens, a fifth of them scored at most
            least, most = (3 * forward_flops(config, [length]) / length for length in (8, one["length"]))
            head = 3 * 2 * (128 * 128 + 128 * 2000)
            assert least < one["flops_per_token"] < most + head / 5
        if one["part"] == "embed":
            assert forward_flops(config, [3]) / 3 < one["flops_per_token"] < forward_flops(config, [512]) / 512
    page = (tmp_path / "gpu.md").read_text()
    assert "## pretrain" in page and "## embed" in page


@pytest.mark.slow
def test_both_contenders_see_the_same_network_and_the_page_tells_it(tmp_path: Path):
    pytest.importorskip("transformers")
    command = [sys.executable, str(SCRIPT), "--output", str(tmp_path), "--threads", "1", "--quiet", *FLAGS.split()]
    source = {**os.environ, "PYTHONPATH": str(REPOSITORY / "src"), "TORCHDYNAMO_DISABLE": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=source, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads((tmp_path / "gpu.json").read_text())
    assert not found["failed"] and not found["cut"]
    work = {(one["name"].split(",")[0], one["contender"]): one["flops_per_token"] for one in found["measured"]}
    for (part, contender), own in work.items():  # like texts, so like work, whoever is measured
        assert own == pytest.approx(work[part, "transformers"], rel=0.2), (part, contender)
    page = (tmp_path / "gpu.md").read_text()
    assert "lowest centered cosine 1.0000" in page or "lowest centered cosine 0.99" in page


def test_utilization_is_a_fraction_of_the_peak_and_empty_if_unknown(rooms):
    one = {"size": "base", "flops_per_second": 494.5e12}
    found = rooms.shares(one, {"peak": 989e12, "ceilings": {"base": 659e12}})
    assert found["of the peak"] == 0.5 and found["of plain products"] == pytest.approx(0.75, abs=1e-3)
    assert rooms.shares(one, {"peak": None, "ceilings": {}}) == {"of the peak": None, "of plain products": None}


def test_a_batch_that_does_not_fit_is_halved(rooms, monkeypatch: pytest.MonkeyPatch):
    gpu = rooms
    asked = []

    class Full:
        def __init__(self, *_: object) -> None: ...

        def ask(self, part: str, **settings: object) -> dict:
            asked.append(settings["sequences"])
            if len(asked) < 3:
                raise gpu.BackendError("OutOfMemoryError: CUDA out of memory")
            return {"fits": True}

        def stop(self) -> None: ...

        def close(self) -> None: ...

    monkeypatch.setattr(gpu, "BackendProcess", Full)
    options = type("Options", (), {"output": Path("x"), "threads": None, "tokens": 1024})()
    contest = gpu.Contest(options, "bf16", gpu.torch.device("cpu"))
    assert contest.measure(gpu.Measurement("pretrain", "base", gpu.OURS, 128), 1.0, 60.0) == {"fits": True}
    assert asked == [8, 4, 2]


def test_a_measurement_that_hangs_is_given_up_and_its_process_begun_anew(rooms, monkeypatch: pytest.MonkeyPatch):
    gpu = rooms
    stopped = threading.Event()

    class Hanging:
        def __init__(self, *_: object) -> None: ...

        def ask(self, part: str, **settings: object) -> dict:
            assert stopped.wait(60)
            raise gpu.BackendError("maskwright ended: exit code -9")

        def stop(self) -> None:
            stopped.set()

        def close(self) -> None: ...

    monkeypatch.setattr(gpu, "BackendProcess", Hanging)
    contest = gpu.Contest(
        type("Options", (), {"output": Path("x"), "threads": None})(), "bf16", gpu.torch.device("cpu")
    )
    with pytest.raises(gpu.BackendError, match="given up after 0 seconds"):
        contest.measure(gpu.Measurement("finetune", "base", gpu.OURS), 1.0, 0.05)
    assert not contest.children
