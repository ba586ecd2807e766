"""Trainings and search indexes that are killed anywhere: the same command ends with the same bits."""

from __future__ import annotations

from pathlib import Path

import pytest

from reliability.killing import CAN_FORK, NO_FORK, check_killed_runs

QUICK = {"pretrain": 1}
SLOW = {"search": 4, "finetune": 4, "adapter": 2, "distill": 2, "embeddings": 2, "translation": 2, "lstm": 2, "bilm": 2}


@pytest.mark.skipif(not CAN_FORK, reason=NO_FORK)
@pytest.mark.parametrize(
    ("kind", "kills"),
    [*QUICK.items(), *(pytest.param(*one, marks=pytest.mark.slow) for one in SLOW.items())],
)
def test_killed_runs_end_with_identical_weights_logs_and_files(kind: str, kills: int, tmp_path: Path):
    check_killed_runs(kind, kills, tmp_path)
