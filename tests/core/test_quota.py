"""The CPU quota of a container: both versions of control groups, of the group itself and of those around it."""

import math
import os

import pytest

from maskwright.core import util

VERSION_1 = {"cpu/a/cpu.cfs_quota_us": "150000\n", "cpu/a/cpu.cfs_period_us": "100000\n"}


@pytest.mark.compatibility(
    "torch 2.13.0, tokenizers 0.23.3",
    theirs="With a CPU quota, tokenizers starts as many threads as the quota, torch one for each core of the machine",
    ours="Commands limit torch to the quota, unless --threads or OMP_NUM_THREADS is given; doctor states both numbers",
)
@pytest.mark.parametrize(
    ("own", "files", "quota"),
    [
        ("0::/a/b\n", {"a/cpu.max": "200000 100000\n", "a/b/cpu.max": "max 100000\n"}, 2.0),
        ("0::/\n", {"cpu.max": "50000 100000\n"}, 0.5),
        ("0::/\n", {"cpu.max": "4000000 100000\n"}, 40.0),
        ("0::/\n", {"cpu.max": "max 100000\n"}, math.inf),
        ("3:cpuset:/a\n1:cpu,cpuacct:/a\n", VERSION_1, 1.5),
        ("1:cpu:/a\n", {**VERSION_1, "cpu/a/cpu.cfs_quota_us": "-1\n"}, math.inf),
        ("1:cpu:/of/another/container\n", {}, math.inf),
        ("0::/../outside\n", {"cpu.max": "what\n"}, math.inf),
        (None, {}, math.inf),
    ],
)
def test_threads_keep_to_the_quota(own, files, quota, tmp_path, monkeypatch):
    for name, content in files.items():
        (tmp_path / "groups" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "groups" / name).write_text(content)
    if own is not None:
        (tmp_path / "own").write_text(own)
    monkeypatch.setattr(util, "GROUPS", tmp_path / "groups")
    monkeypatch.setattr(util, "OWN_GROUPS", tmp_path / "own")
    for core in range(64):  # two threads each
        (tmp_path / f"cores/cpu{core}/topology").mkdir(parents=True)
        (tmp_path / f"cores/cpu{core}/topology/thread_siblings_list").write_text(f"{core % 32},{core % 32 + 32}\n")
    monkeypatch.setattr(util, "CORES", tmp_path / "cores")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)), raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert util._quota() == quota
    assert util.usable_cores() == (64 if quota == math.inf else max(1, math.ceil(quota)))
    util.keep_to_quota()
    assert os.environ.get("OMP_NUM_THREADS") == (None if quota > 32 else str(max(1, math.ceil(quota))))
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    util.keep_to_quota()
    assert os.environ["OMP_NUM_THREADS"] == "7"
