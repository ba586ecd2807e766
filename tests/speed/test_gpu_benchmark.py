"""benchmarks/gpu.py on a CPU with a tiny network: consistent figures, a page, reasons."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest

from conventions.sources import REPOSITORY
from maskwright.core.progress import set_quiet
from maskwright.models.presets import preset
from maskwright.speed.workload import forward_flops

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
