"""Two processes on loopback: equal to one, resumed, and ended with one message when either fails."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from maskwright.core.errors import InputError, RunError
from maskwright.core.program import launch_of
from maskwright.train import distributed
from maskwright.train import run as run_folder

HARNESS = Path(__file__).with_name("processes.py")
FAST = ("equal", "shard", "kill-1", "other-settings", "few-micro-batches", "bad-input")
KILLED = {
    "kill-0": "another process ended unexpectedly",
    "kill-in-save": "another process ended unexpectedly",
    "kill-finetune": "another process ended unexpectedly",
    "kill-distill": "another process ended unexpectedly",
    "full-disk": "process 0 of 2: Cannot write",
    "nan": "process 1 of 2: The gradient is not finite at step 5",
    "hang": "another process hangs",
    "shard-kill": "another process ended unexpectedly",
}
TERMINATED = ("terminate", "terminate-one")
EQUAL = ("equal-finetune", "equal-distill")  # "long…" and "random-kills" take minutes: run by hand
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks the processes, which this system cannot")


def run(folder, *scenarios):
    """What scenarios ended with, run in a separate process that has used no tensor before it forks."""
    command = [sys.executable, str(HARNESS), *scenarios, "--folder", str(folder)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=1500, check=False)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def fast(tmp_path_factory):
    """The fast scenarios, after one import of torch."""
    return run(tmp_path_factory.mktemp("fast"), *FAST)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Where the slow scenarios find the runs that nothing ends, with which they compare."""
    return tmp_path_factory.mktemp("kept")


def ended(folder, scenario):
    return run(folder, scenario)[scenario]


def errors(found):
    return [line for text in found["messages"] for line in text.splitlines() if line.startswith("error")]


def check_equal(found):
    assert found["codes"] == [[0], [0, 0]], found["messages"]
    assert found["distance"] < 1e-4
    one, two = found["tokens"]
    assert one == two and one
    one, two = found["samples"]
    assert one == two and one


def check_resumed(found, message):
    (line,) = errors(found)
    assert message in line
    assert found["clean"] and found["same"], found
    assert set(found["resumed"]) == {0}


def test_two_processes_see_the_samples_of_one_and_train_its_weights(fast):
    check_equal(fast["equal"])


def test_sharded_training_equals_one_process(fast):
    check_equal(fast["shard"])


def test_the_log_of_several_processes_has_times_of_a_step(fast):
    record = fast["equal"]["record"]
    assert all(record[f"{kind}_seconds"] >= 0 for kind in ("data", "compute", "communication"))
    assert record["slowest_process"] in (0, 1) and record["tokens_per_second"] > 0
    assert len(record["memory_mb"]) == 2 and min(record["memory_mb"]) > 10 and record["tflops_per_second"] > 0
    (line,) = [line for line in "".join(fast["equal"]["messages"]).splitlines() if line.startswith("2 processes: ")]
    assert "communication" in line and "MB of memory each" in line and "longer than the others" in line


def test_a_killed_process_ends_the_job_and_the_same_command_resumes(fast):
    check_resumed(fast["kill-1"], "another process ended unexpectedly")
    assert fast["kill-1"]["codes"] == [2, -9]


@pytest.mark.parametrize(
    ("scenario", "message"),
    [
        ("other-settings", "process 1 of 2: The settings differ from those of process 0: lr (was 0.0005, now 0.0001)"),
        ("few-micro-batches", "A step has 2 micro-batches, fewer than the 3 processes: pass --accumulation 3"),
        ("bad-input", "missing.txt does not exist"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_no_folder(fast, scenario, message):
    check_rejected(fast[scenario], message)


def check_rejected(found, message):
    assert set(found["codes"]) == {2}, found["messages"]
    (line,) = errors(found)
    assert message in line
    assert not found["exists"]


@pytest.mark.slow
def test_other_labels_on_one_machine_are_rejected(tmp_path):
    check_rejected(
        ended(tmp_path, "other-labels"), "process 1 of 2: The settings of the training differ from those of process 0"
    )


@pytest.mark.slow
@pytest.mark.parametrize(("scenario", "message"), KILLED.items())
def test_any_failing_process_ends_the_job_and_the_same_command_resumes(kept, scenario, message):
    check_resumed(ended(kept, scenario), message)


@pytest.mark.slow
@pytest.mark.parametrize("scenario", TERMINATED)
def test_a_signal_saves_once_and_exits_with_130(kept, scenario):
    found = ended(kept, scenario)
    assert set(found["codes"]) == {130} and not errors(found)
    assert sum("Saved at step" in text for text in found["messages"]) == 1
    assert found["same"] and set(found["resumed"]) == {0}


@pytest.mark.slow
@pytest.mark.parametrize("scenario", ["resume-in-one", "shard-resume-in-one"])
def test_another_number_of_processes_resumes_with_the_same_samples(kept, scenario):
    found = ended(kept, scenario)
    assert found["resumed"] == [0] and found["distance"] < 1e-4
    assert "began with 2 processes and resumes with 1" in found["resumed_messages"][0]


@pytest.mark.slow
def test_gradients_added_up_in_bfloat16_are_rounded(tmp_path):
    found = ended(tmp_path, "bf16")
    assert found["codes"] == [[0], [0, 0]] and 1e-6 < found["distance"] < 1e-3
    one, two = found["samples"]
    assert one == two and one


@pytest.mark.slow
@pytest.mark.parametrize("scenario", EQUAL)
def test_every_kind_of_training_equals_one_process(tmp_path, scenario):
    check_equal(ended(tmp_path, scenario))


def test_a_port_in_use_is_named(monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        names = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(taken.getsockname()[1])}
        for name, value in names.items():
            monkeypatch.setenv(name, value)
        launch = launch_of()
        assert launch is not None
        with pytest.raises(distributed.ConnectError, match=f"Port {launch.port} is in use"):
            distributed.ProcessGroup(launch)


def test_a_folder_that_not_all_processes_see_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(run_folder, "VISIBLE_SECONDS", 0.0)
    group = distributed.Group()
    with pytest.raises(RunError, match="is not the run folder of the first process"):
        run_folder._check_visible(tmp_path, "process 1 on node1", group)
    (tmp_path / ".lock").write_text("process 1 on node1")
    run_folder._check_visible(tmp_path, "process 1 on node1", group)


def test_nobody_waits_for_the_folder_of_a_run_that_has_failed(tmp_path):
    class Failed(distributed.Group):
        def raise_failure(self):
            raise InputError("a bad row")

    with pytest.raises(InputError, match="a bad row"):
        run_folder._check_visible(tmp_path, "process 1 on node1", Failed())
