"""The launch that environment variables describe."""

from __future__ import annotations

import pytest

from maskwright.core.errors import ConfigError
from maskwright.core.program import launch_of

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
