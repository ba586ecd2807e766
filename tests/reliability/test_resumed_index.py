"""Search indexes whose construction is killed anywhere: the same command ends with the same files and results."""

from __future__ import annotations

from pathlib import Path

import pytest

from reliability.killing import CAN_FORK, NO_FORK, check_killed_runs

pytestmark = pytest.mark.skipif(not CAN_FORK, reason=NO_FORK)


@pytest.mark.parametrize("kills", [6, pytest.param(20, marks=pytest.mark.slow)])
def test_killed_constructions_end_with_an_identical_index(kills: int, tmp_path: Path):
    check_killed_runs("search", kills, tmp_path)
