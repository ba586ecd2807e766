"""Commands under torchrun, and in a shell that has the environment variables of a cluster job."""

from __future__ import annotations

from pathlib import Path

import pytest

from maskwright.cli import app as command_line
from maskwright.core.config import command_line as command_line_of
from maskwright.core.config import to_dict
from maskwright.train import distributed as command
from maskwright.train.finetuning.config import FinetuneConfig


@pytest.fixture
def cluster(monkeypatch):
    """The variables of the second of two processes."""
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")


def test_other_commands_ignore_the_variables_of_a_cluster_job(cluster, maskwright):
    code, out, _ = maskwright("bench", "--help")
    assert code == 0 and "bench" in out


def test_torchrun_with_a_command_of_one_process_is_rejected(cluster, monkeypatch, maskwright):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    monkeypatch.setattr(command, "run_member", lambda launch, run, *, debug: run())
    code, _, err = maskwright("plan")
    assert code == 2
    assert err == "error: maskwright plan runs in one process: start it without torchrun.\n"


@pytest.mark.parametrize("name", command_line.SHARED)
def test_training_commands_join_the_other_processes(cluster, monkeypatch, maskwright, name):
    joined = []
    monkeypatch.setattr(command, "run_member", lambda launch, run, *, debug: joined.append(launch.rank))
    maskwright(name, "--help")
    assert joined == [1]


def test_torchrun_with_a_single_process_is_rejected(monkeypatch, refused, tmp_path):
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "TORCHELASTIC_RUN_ID": "none"}.items():
        monkeypatch.setenv(name, value)
    refused("pass --nproc-per-node N", "pretrain", "-o", tmp_path / "run", tmp_path / "corpus.txt")
    assert not (tmp_path / "run").exists()


def test_a_suggested_command_does_not_depend_on_the_number_of_processes(cluster):
    suggested = command_line_of(FinetuneConfig, {"train": "train.tsv", "output": "runs/a"})
    assert "--train train.tsv" in suggested and "--accumulation" not in suggested
    ran = command_line_of(FinetuneConfig, to_dict(FinetuneConfig(train=Path("train.tsv"), output=Path("runs/a"))))
    assert "--accumulation 2" in ran
