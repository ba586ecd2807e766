"""benchmarks/growth.py: powers of costs that are known, what is named, and one real run of every kind of curve."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest

from conventions.sources import REPOSITORY
from maskwright.core.progress import set_quiet

SIZES = [1, 2, 4, 8, 16, 32]


@pytest.fixture
def rooms(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(REPOSITORY / "benchmarks" / "growing"))
    monkeypatch.syspath_prepend(str(REPOSITORY / "benchmarks"))
    return importlib.import_module("growth"), importlib.import_module("fit")


def points(time: float, work: float = 1.0, memory: float = 1.0, fixed: float = 0.0) -> list[dict[str, float]]:
    """Costs that are powers of the size, and a fixed one."""
    return [
        {"size": size, "seconds": fixed + 1e-3 * size**time, "work": 1e6 * size**work, "memory": 1e8 * size**memory}
        for size in SIZES
    ]


@pytest.mark.parametrize("time", [0.0, 0.5, 1.0, 2.0])
def test_the_power_of_a_known_cost_comes_back(rooms, time: float):
    found = rooms[1].growth(points(time), 1.0)
    assert found.time == pytest.approx(time) and found.work == pytest.approx(1.0) and found.memory == pytest.approx(1.0)


def test_what_grows_as_its_work_is_no_finding_even_a_square(rooms):
    for power in (1.0, 2.0):
        found = rooms[1].growth(points(power, work=power), 1.0)
        assert not found.is_faster and not found.takes_more and found.drift == pytest.approx(1.0)
    assert not rooms[1].growth(points(1.0, fixed=0.01), 1.0).is_faster  # fixed costs make small sizes dear, not large


def test_what_grows_faster_than_its_work_is_named_with_the_place(rooms):
    growth_room, fit = rooms
    own = fit.growth(points(1.3), 1.0)
    assert own.is_faster and own.drift == pytest.approx(32**0.3)
    broken = points(1.0)
    for point in broken[4:]:
        point["seconds"] *= 3  # falls out of a cache after 8
    (sentence,) = growth_room.named({"length": fit.growth(broken, 1.0)})
    assert "3.00 times" in sentence and "most after 8 tokens" in sentence


def test_memory_that_should_not_grow_is_named_and_a_little_is_not(rooms):
    growth_room, fit = rooms
    own = fit.growth(points(1.0, memory=0.9), 0.0)
    assert own.takes_more and "memory" in growth_room.named({"corpus": own})[0]
    small = [{**point, "memory": 1e3 * point["size"]} for point in points(1.0)]
    assert fit.growth(small, 0.0).memory is None and not fit.growth(small, 0.0).takes_more


def test_sizes_of_threads_are_those_of_the_machine(rooms, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rooms[0], "usable_cores", lambda: 6)
    assert rooms[0].sizes_of("threads", full=False) == [1, 2, 4, 6]
    for name in rooms[0].CURVES:
        for full in (False, True):
            assert len(rooms[0].sizes_of(name, full)) > 1


@pytest.fixture
def run(rooms, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Measures curves of a tiny network in its own processes, and gives what was written."""

    def measured(curves: str, sizes: str) -> dict:
        flags = f"--curves {curves} --sizes {sizes} --preset bert-tiny --vocab-size 200 --seconds 0 --step-tokens 128"
        monkeypatch.setattr(
            sys, "argv", ["growth.py", "-o", str(tmp_path), "--quiet", "--threads", "1", *flags.split()]
        )
        rooms[0].main()
        return json.loads((tmp_path / "growth.json").read_text())

    yield measured
    set_quiet(False)


@pytest.mark.slow
def test_a_run_measures_writes_and_does_not_measure_again(run, tmp_path: Path):
    found = run("length,vocabulary", "32,64")
    for name in ("length", "vocabulary"):
        own = found["curves"][name]
        assert own["failed"] is None and [point["size"] for point in own["points"]] == [32, 64]
        assert all(point["seconds"] > 0 and point["work"] > 0 and point["memory"] >= 0 for point in own["points"])
    page = (tmp_path / "growth.md").read_text()
    assert "| inference, tokens of one sequence | 32 to 64 tokens |" in page and "## Costs above the work" in page
    assert (tmp_path / "growth.svg").read_text().startswith("<svg")
    assert run("length", "32,64")["curves"] == found["curves"]


@pytest.mark.slow
def test_curves_of_text_and_threads_run_too(run):
    found = run("corpus,tokenizer-corpus,threads,training-length,training-batch,batch", "1,2")
    assert all(own["failed"] is None and len(own["points"]) == 2 for own in found["curves"].values())
