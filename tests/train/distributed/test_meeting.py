"""Processes that cannot meet, or see other folders, say so in one sentence."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from maskwright.core.errors import RunError
from maskwright.core.program import launch_of
from maskwright.train import run
from maskwright.train.distributed import group as collectives


def test_a_port_in_use_is_named():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        names = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        launch = launch_of(names)
        assert launch is not None
        with pytest.raises(collectives.ConnectError, match=f"Port {port} is in use by another program: choose another"):
            collectives.connect(launch)


def test_a_folder_that_not_all_processes_see_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(run, "VISIBLE_SECONDS", 0.0)
    with pytest.raises(RunError, match="is not the run folder of the first process .* that all machines share"):
        run._check_visible(tmp_path, "process 1 on node1")
    (tmp_path / ".lock").write_text("process 1 on node1")
    run._check_visible(tmp_path, "process 1 on node1")
