"""Training for tasks that is killed anywhere: the same command ends with the same bits."""

from __future__ import annotations

from pathlib import Path

import pytest

from reliability.killing import CAN_FORK, NO_FORK, check_killed_runs

pytestmark = pytest.mark.skipif(not CAN_FORK, reason=NO_FORK)


@pytest.mark.parametrize(
    ("kind", "kills"),
    [
        pytest.param("finetune", 4, marks=pytest.mark.slow),
        pytest.param("adapter", 2, marks=pytest.mark.slow),
        pytest.param("distill", 2, marks=pytest.mark.slow),
        pytest.param("embeddings", 2, marks=pytest.mark.slow),
        pytest.param("translation", 2, marks=pytest.mark.slow),
    ],
)
def test_killed_runs_end_with_identical_weights_and_logs(kind: str, kills: int, tmp_path: Path):
    check_killed_runs(kind, kills, tmp_path)
