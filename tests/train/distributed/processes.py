"""Trainings of several processes on loopback: `python processes.py SCENARIO… --folder F` prints one JSON object.

A warm parent (everything imported, no tensor touched, so that forking is safe) forks the processes of each job, with
the environment variables that torchrun sets. A scenario returns what its jobs ended with, for the tests to check.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))  # run as a script: tests/ is not on the path

os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")  # as the command line does

import safetensors.torch
import torch
import torch._dynamo  # as an optimizer does, in 1 s; before the first fork
import torch.distributed

from maskwright.core import progress, storage
from maskwright.core.errors import CorruptFileError
from maskwright.core.program import launch_of
from maskwright.train import distributed, loop
from maskwright.train.distillation.config import DistillConfig
from maskwright.train.distillation.distill import distill
from maskwright.train.distributed import ProcessGroup, run_member
from maskwright.train.finetuning import finetune as finetune_module
from maskwright.train.finetuning.config import FinetuneConfig
from maskwright.train.finetuning.finetune import finetune
from maskwright.train.pretraining.config import PretrainConfig
from maskwright.train.pretraining.pretrain import pretrain
from maskwright.train.steps import LocalSteps, SharedSteps
from train.runs import TINY, corpus, labeled

TIMES = ("tokens_per_second", "tflops_per_second", "memory_mb", "slowest_process", "time")
os.fsync = lambda descriptor: None  # a kill loses nothing that was written
FAILED = 99  # exit code of a process that did not come to an end in time
Command = Callable[[Path], object]
Hook = Callable[[], None]


@dataclass
class Ended:
    """How the processes of a job ended. messages: standard error of each."""

    codes: list[int]
    messages: list[str]
    seconds: float
    folder: Path = field(repr=False)

    @property
    def message(self):
        return "".join(self.messages)


def run_job(command, output, world=2, hooks=None, **how):
    """Run a job of `world` processes. hooks: run in a process before its command; how: see `_start`."""
    began = time.monotonic()
    port = _free_port()
    logs = [output.parent / f"{output.name}-{rank}.log" for rank in range(world)]
    children = [
        _start(command, output, rank, world, port, logs[rank], (hooks or {}).get(rank), **how) for rank in range(world)
    ]
    codes = [_finish(child, began) for child in children]
    texts = [log.read_text(encoding="utf-8", errors="replace") for log in logs]
    return Ended(codes, texts, time.monotonic() - began, output)


def _start(command, output, rank, world, port, log, hook, environment=None):
    """Fork one process. Returns its process id."""
    child = os.fork()
    if child:
        return child
    try:
        os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        os.environ.update({"OMP_NUM_THREADS": "1", **(environment or {})})
        torch.set_num_threads(1)
        progress.set_quiet(False)
        if world > 1:
            names = {"RANK": rank, "WORLD_SIZE": world, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": world}
            os.environ.update({name: str(value) for name, value in names.items()})
            os.environ.update({"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)})
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        if hook is not None:
            hook()
        launch = launch_of()
        if launch is not None and launch.world > 1:
            run_member(launch, lambda: command(output) and 0, debug=False)
        command(output)
        os._exit(0)
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        os._exit(130 if isinstance(error, KeyboardInterrupt) else 2)


def _finish(child, began, limit=120.0):
    """Wait for a process; its exit code, negative for the signal that ended it."""
    while time.monotonic() - began < limit:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return FAILED


def _free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
    return port


def pretraining(folder, **changes):
    settings: dict[str, Any] = {
        "corpus": (str(corpus(folder)),), "preset": "bert-tiny", "model": TINY, "vocab_size": 80, "steps": 8,
        "batch_tokens": 256, "max_length": 32, "accumulation": 2, "checkpoint_every": 3, "log_every": 2,
        "holdout": 0.15, "precision": "fp32",
    }  # fmt: skip
    return lambda output: pretrain(PretrainConfig(**{**settings, **changes, "output": output}))


def tokenizer_of(folder):
    from maskwright.text.tokenizers.tokenizer import Tokenizer

    target = folder / "tok"
    if not target.exists():
        text = corpus(folder)
        run_job(lambda output: Tokenizer.train([text], kind="wordpiece", vocab_size=80).save(output), target, 1)
    return target


def finetuning(folder, **changes):
    """A classifier from scratch, with a dev set that chooses the epoch."""
    settings: dict[str, Any] = {
        "train": labeled(folder / "train.tsv", 60, 1), "dev": labeled(folder / "dev.tsv", 24, 2),
        "preset": "bert-tiny", "tokenizer": tokenizer_of(folder), "epochs": 3, "lr": 2e-3, "batch_size": 16,
        "accumulation": 2, "max_length": 24, "precision": "fp32", "checkpoint_every": 3, "log_every": 2,
    }  # fmt: skip
    return lambda output: finetune(FinetuneConfig(**{**settings, **changes, "output": output}))


def distilling(folder, **changes):
    teacher = folder / "teacher"
    if not teacher.exists():
        run_job(finetuning(folder, seeds=1, epochs=1), teacher, 1)
    settings: dict[str, Any] = {
        "teacher": str(teacher / "model"), "train": folder / "train.tsv", "dev": folder / "dev.tsv", "layers": 1,
        "epochs": 2, "lr": 1e-3, "batch_size": 16, "accumulation": 2, "max_length": 24, "precision": "fp32",
        "prune_heads": 0.0, "prune_layers": 0, "log_every": 2,
    }  # fmt: skip
    return lambda output: distill(DistillConfig(**{**settings, **changes, "output": output}))


def weights_of(folder):
    found = safetensors.torch.load_file(folder / "model" / "model.safetensors")
    return torch.cat([found[name].double().flatten() for name in sorted(found)])


def distance(one, other):
    first, second = weights_of(one), weights_of(other)
    return float((first - second).norm() / first.norm())


def fingerprint(folder):
    log = [
        {name: value for name, value in json.loads(line).items() if name not in TIMES and "seconds" not in name}
        for path in sorted(folder.rglob("metrics.jsonl"))
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    return {"weights": storage.sha256(folder / "model" / "model.safetensors"), "log": log}


def clean(folder):
    """Whether all checkpoints of a run are complete. Temporary files of a killed process may remain."""
    try:
        for path in folder.rglob("checkpoints/step-*"):
            storage.verify_folder(path)
    except CorruptFileError:
        return False
    return True


def before_step(step, act):
    """A hook that calls `act(job)` before a step (from 0) is computed."""

    def install():
        plain = loop._one_step

        def changed(job, optimizer, steps, settings, number, window):
            if number == step:
                act(job)
            return plain(job, optimizer, steps, settings, number, window)

        loop._one_step = changed

    return install


def record_samples(folder):
    """A hook that writes which micro-batches a process computes: step, number, and a digest of tokens and labels."""

    def install():
        folder.mkdir(exist_ok=True)
        for kind in (LocalSteps, SharedSteps):
            kind.batches = _recording(kind.batches, folder / f"{os.getpid()}.jsonl")  # type: ignore[method-assign]

    return install


def _recording(plain, path):
    def batches(steps, job, step):
        found = plain(steps, job, step)
        with path.open("a", encoding="utf-8") as log:
            for number, batch in found:
                if number < 0:  # a repeated one, which has no effect
                    continue
                digest = hashlib.sha256()
                for tensor in (batch.input_ids, *(batch.labels[name] for name in sorted(batch.labels))):
                    digest.update(tensor.numpy().tobytes())
                log.write(json.dumps([step, number, digest.hexdigest()]) + "\n")
        return found

    return batches


def samples_in(folder):
    """What the processes of a job wrote by `record_samples`."""
    return [json.loads(line) for path in folder.iterdir() for line in path.read_text(encoding="utf-8").splitlines()]


def kill_self(job):
    os.kill(os.getpid(), signal.SIGKILL)


def stop_self(job):
    """SIGTERM, as a cluster sends it."""
    os.kill(os.getpid(), signal.SIGTERM)


def poison(job):
    plain = job.outcome

    def poisoned(batch):
        found = plain(batch)
        found.losses = {name: loss * float("nan") for name, loss in found.losses.items()}
        return found

    job.outcome = poisoned


def fail_in_save(number):
    """A hook that kills the process in its n-th disk operation inside the first checkpoint."""

    def install():
        plain = loop.save_checkpoint

        def changed(*args, **options):
            storage.fs = KillingFileSystem(number)
            plain(*args, **options)

        loop.save_checkpoint = changed

    return install


class KillingFileSystem(storage.FileSystem):
    """Ends the process at the n-th write, sync or rename."""

    def __init__(self, kill_at):
        self.left = kill_at

    def _count(self):
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def write(self, handle, data):
        self._count()
        super().write(handle, data)

    def rename(self, source, target):
        self._count()
        super().rename(source, target)


class FullDisk(storage.FileSystem):
    """Every write fails as on a full disk."""

    def write(self, handle, data):
        raise OSError(28, "No space left on device")


def fill_disk(job):
    storage.fs = FullDisk()


def equal(folder, make, **changes):
    """The same job in one process and in two."""
    command = make(folder.parent, **changes)
    one, two = folder / "one", folder / "two" if changes else uninterrupted(folder, make)
    ended = []
    for output, world in ((one, 1), (two, 2)):
        hook = record_samples(folder / f"samples-{world}")
        ended.append(run_job(command, output, world, hooks=dict.fromkeys(range(world), hook)))
    result = {"codes": [job.codes for job in ended], "messages": [job.message for job in ended]}
    if any(code for job in ended for code in job.codes):
        return result
    logs = [fingerprint(output)["log"] for output in (one, two)]
    tokens = [[record["tokens"] for record in log if "tokens" in record] for log in logs]
    samples = [sorted(samples_in(folder / f"samples-{world}")) for world in (1, 2)]
    record = json.loads((two / "metrics.jsonl").read_text().splitlines()[0]) if make is pretraining else {}
    return {**result, "distance": distance(one, two), "tokens": tokens, "samples": samples, "record": record}


def uninterrupted(folder, make):
    """The run of two processes that the scenarios share."""
    return folder.parent / f"whole-{make.__name__}"


def interrupted(folder, hooks, again=2, make=None, environment=None, **changes):
    """A job of two processes that something ends; the same command then resumes with `again` processes.

    make: `pretraining` by default; changes: of its settings, then the uninterrupted run is in the folder.
    """
    make = make or pretraining
    command, whole = make(folder.parent, **changes), folder / "whole" if changes else uninterrupted(folder, make)
    if not whole.exists():
        run_job(command, whole)
    broken = folder / "broken"
    first = run_job(command, broken, hooks=hooks, environment=environment)
    result = {"codes": first.codes, "messages": first.messages, "seconds": first.seconds, "clean": clean(broken)}
    last = run_job(command, broken, again)
    result |= {"resumed": last.codes, "resumed_messages": last.messages}
    if not any(last.codes):
        result |= {"same": fingerprint(broken) == fingerprint(whole), "distance": distance(broken, whole)}
    return result


def random_kills(folder, trials=35):
    """Kill a random process at a random moment; the same command then resumes. Three kinds of training by turns."""
    draw = random.Random(26)
    kinds: list[tuple[Callable[..., Command], dict[str, Any]]] = [
        (pretraining, {}), (finetuning, {}), (pretraining, {"shard": True}),
    ]  # fmt: skip
    commands = [make(folder, **changes) for make, changes in kinds]
    wholes = [run_job(command, folder / f"whole-{number}") for number, command in enumerate(commands)]
    result = {"trials": trials, "killed": 0, "same": 0, "clean": 0}
    for trial in range(trials):
        number = trial % len(kinds)
        delay, output = draw.random() * wholes[number].seconds, folder / f"trial-{trial}"
        hooks: dict[int, Hook] = {draw.randrange(2): partial(_kill_later, delay)}
        result["killed"] += any(run_job(commands[number], output, hooks=hooks).codes)
        result["clean"] += clean(output)
        ended = run_job(commands[number], output)
        result["same"] += not any(ended.codes) and fingerprint(output) == fingerprint(wholes[number].folder)
    return result


def _kill_later(seconds):
    threading.Timer(seconds, os.kill, [os.getpid(), signal.SIGKILL]).start()


def hang(job):
    """Does nothing until the other process has recorded that this one hangs."""
    while not distributed._joined.store.check([distributed.RECORD]):
        time.sleep(0.05)


def be_slow():
    """A hook: each exchange ends 0.1 s later in this process, so that the others find invalid input before it."""
    plain = ProcessGroup._await

    class Late:
        def __init__(self, work):
            self.wait, self._work, self._ends = work.wait, work, time.monotonic() + 0.1

        def is_completed(self):
            return time.monotonic() > self._ends and self._work.is_completed()

    ProcessGroup._await = lambda group, work: plain(group, Late(work))  # type: ignore[method-assign]


def rejected(folder, commands, hooks=None):
    """A job whose processes run these commands."""

    def command(output):
        return commands[int(os.environ["RANK"])](output)

    ended = run_job(command, folder / "run", len(commands), hooks=hooks)
    return {
        "codes": ended.codes,
        "messages": ended.messages,
        "seconds": ended.seconds,
        "exists": (folder / "run").exists(),
    }


def with_other_labels(folder):
    """A fine-tuning in which process 1 reads a training file with another label."""
    command = finetuning(folder)
    other = folder / "other.tsv"
    other.write_text((folder / "train.tsv").read_text(encoding="utf-8").replace("animal", "place", 1), encoding="utf-8")
    plain = finetune_module.read_data

    def run(output):
        if os.environ["RANK"] == "1":
            finetune_module.read_data = lambda config: plain(replace(config, train=other))
        return command(output)

    return run


SCENARIOS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "equal": lambda folder: equal(folder, pretraining),
    "equal-finetune": lambda folder: equal(folder, finetuning),
    "equal-distill": lambda folder: equal(folder, distilling),
    "long": lambda folder: equal(folder, pretraining, steps=200, checkpoint_every=100, accumulation=4),
    "long-finetune": lambda folder: equal(folder, finetuning, epochs=50, checkpoint_every=100),
    "long-distill": lambda folder: equal(folder, distilling, epochs=50, checkpoint_every=100),
    "kill-1": lambda folder: interrupted(folder, {1: before_step(4, kill_self)}),
    "kill-0": lambda folder: interrupted(folder, {0: before_step(4, kill_self)}),
    "kill-in-save": lambda folder: interrupted(folder, {0: fail_in_save(2)}),
    "terminate": lambda folder: interrupted(folder, {0: before_step(3, stop_self), 1: before_step(3, stop_self)}),
    "terminate-one": lambda folder: interrupted(folder, {1: before_step(3, stop_self)}),
    "resume-in-one": lambda folder: interrupted(folder, {1: before_step(4, kill_self)}, again=1),
    "nan": lambda folder: interrupted(folder, {1: before_step(4, poison)}),
    "hang": lambda folder: interrupted(
        folder, {1: before_step(4, hang)}, environment={"MASKWRIGHT_TIMEOUT": "8"}
    ),
    "kill-finetune": lambda folder: interrupted(folder, {0: before_step(5, kill_self)}, make=finetuning),
    "kill-distill": lambda folder: interrupted(folder, {1: before_step(5, kill_self)}, make=distilling),
    "full-disk": lambda folder: interrupted(folder, {0: before_step(4, fill_disk)}),
    "other-settings": lambda folder: rejected(folder, [pretraining(folder), pretraining(folder, lr=1e-4)]),
    "other-labels": lambda folder: rejected(folder, [with_other_labels(folder)] * 2),
    "shard": lambda folder: equal(folder, pretraining, shard=True, accumulation=3, steps=8),
    "shard-finetune": lambda folder: equal(folder, finetuning, shard=True),
    "shard-kill": lambda folder: interrupted(folder, {1: before_step(4, kill_self)}, shard=True),
    "shard-resume-in-one": lambda folder: interrupted(folder, {0: before_step(4, kill_self)}, again=1, shard=True),
    "shard-nan": lambda folder: interrupted(folder, {1: before_step(4, poison)}, shard=True),
    "long-shard": lambda folder: equal(folder, pretraining, shard=True, steps=200, checkpoint_every=100),
    "bf16": lambda folder: equal(folder, pretraining, reduce_precision="bf16"),
    "random-kills": random_kills,
    "few-micro-batches": lambda folder: rejected(folder, [pretraining(folder, accumulation=2)] * 3, {0: be_slow}),
    "bad-input": lambda folder: rejected(folder, [pretraining(folder, corpus=("missing.txt",))] * 2),
}  # fmt: skip


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("scenarios", nargs="+", choices=sorted(SCENARIOS))
    parser.add_argument("--folder", type=Path, required=True)
    arguments = parser.parse_args()
    found = {}
    for name in arguments.scenarios:
        folder = arguments.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        began = time.monotonic()
        found[name] = SCENARIOS[name](folder)
        found[name]["total_seconds"] = round(time.monotonic() - began, 2)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
