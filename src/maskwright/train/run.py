"""A run folder: one recipe, one writing process, one log; finished or resumable.

config.toml      the resolved recipe            checkpoints/step-N/   complete or absent
run.json         versions, threads, machine     model/                the final model
inputs.json      the files that it reads (see `inputs`)
metrics.jsonl    one line per logged step       report.html           the report
result.json      written last: the run is finished
events.out.tfevents.maskwright, wandb/, mlruns/   the log for other programs, if the recipe names them (--log)
"""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, fields
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Self

import torch

from .. import __version__
from ..core import config as configuration
from ..core import storage
from ..core.errors import InputError, MissingExtraError, MissingFileError, RunError
from ..core.progress import note
from ..core.util import plural
from .callbacks import Callback, Callbacks
from .distributed import Group, check_processes, check_same, joined
from .inputs import INPUTS, SHOWN, Finder, Inputs, inputs_of
from .loggers import loggers_of

RESULT = "result.json"
VISIBLE_SECONDS = 20.0  # for a folder to appear on other machines
METRICS = "metrics.jsonl"
FINISHED = ("rungs", "parts", "probes")  # folders with the finished parts of experiments  (terms: ok)
# Settings that may change when a run is resumed: they affect results no more than another version of torch does. The
# folder itself may have been moved.
_CHANGEABLE = ("output", "tensorboard", "log", "activation_checkpointing", "compile", "shard", "shard_cache")
_KINDS = {
    "pretrain_steps": "a ladder",
    "rare_class": "a class-imbalance experiment",
    "probe": "a layer-wise probing experiment",
    "benchmark": "a benchmark",
    "multi_task": "a multi-task run",
    "teacher": "a distillation",
    "objective": "a pre-training run",
    "task": "a fine-tuning run",
}


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """Where the results of a finished run are. output: the run folder."""

    output: Path
    already_finished: bool = False

    @classmethod
    def of(cls, run: RunFolder, result: Mapping[str, Any], **own: Any) -> Self:
        """The fields that result.json has under their names, and `own`: those that are made of it."""
        known = {one.name: result[one.name] for one in fields(cls) if one.name in result}
        return cls(**{**known, **own, "output": run.path})

    @property
    def model(self) -> Path:
        return self.output / "model"

    @property
    def report(self) -> Path:
        return self.output / "report.html"


class RunFolder:
    """Paths and log of one run. Open it with `open_run`.

    group: the processes that train; only the first one writes, and the others ignore calls that would. callbacks:
    called during training; inputs: the files that the run reads, in the first process.
    """

    def __init__(
        self,
        path: Path,
        recipe: dict[str, Any],
        group: Group | None = None,
        callbacks: Callbacks | None = None,
        inputs: Inputs | None = None,
    ) -> None:
        self.callbacks = Callbacks() if callbacks is None else callbacks
        self.inputs = inputs
        self.path = path
        self.recipe = recipe
        self.group = Group() if group is None else group
        self.metrics_path = path / METRICS
        self.checkpoints = path / "checkpoints"
        self._parts: list[RunFolder] = []

    @cached_property
    def loggers(self) -> list[Any]:
        """Those that write the log for other programs; in the first process only."""
        return loggers_of(self.path, self.recipe) if self.group.is_main else []

    @property
    def result(self) -> dict[str, Any] | None:
        return storage.read_json(self.path / RESULT) if (self.path / RESULT).exists() else None

    def finished(self) -> Any:
        """`result`, in every process as the first one sees it."""
        return self.group.from_main(lambda: self.result)

    def part(self, name: str) -> RunFolder:
        """A folder in this one with its own log, of the same processes."""
        self._parts.append(RunFolder(self.path / name, self.recipe, self.group, self.callbacks, self.inputs))
        return self._parts[-1]

    def check_inputs(self, *, models_only: bool = False) -> None:
        """Raise InputError if a file has changed while the run was reading it; call it after reading.

        models_only: of a run that loads a model again, and not its data.
        """

        inputs = self.inputs
        self.group.from_main(lambda: None if inputs is None else inputs.check_unchanged(models_only=models_only))

    def close(self) -> None:
        """End the logs of this folder and its parts, as far as this process has written them."""
        for folder in (*self._parts, self):
            for logger in folder.loggers:
                logger.close(folder.result is not None)

    def finish(self, result: dict[str, Any]) -> None:
        """Mark the run as finished. Must be the last write."""
        if self.group.is_main:
            storage.write_json(self.path / RESULT, result)

    def log(self, record: dict[str, Any]) -> None:
        """Append a record, with its `time` (seconds since 1970), to metrics.jsonl and to the loggers."""
        if not self.group.is_main:
            return
        record = {**record, "time": round(time.time(), 3)}
        storage.append_line(self.metrics_path, json.dumps(record))
        for logger in self.loggers:
            logger.append(record)

    def records(self) -> list[dict[str, Any]]:
        """All logged records; a line truncated by a crash is skipped."""
        if not self.metrics_path.exists():
            return []
        records = []
        for line in storage.read_bytes(self.metrics_path).split(b"\n"):
            with suppress(ValueError, RecursionError):
                record = json.loads(line)
                if isinstance(record, dict) and "step" in record:
                    records.append(record)
        return records

    def rewind(self, step: int) -> None:
        """Remove the records logged after `step`, because those steps are repeated."""
        if not self.group.is_main:
            return
        kept = [record for record in self.records() if record["step"] <= step]
        storage.write_text(self.metrics_path, "".join(json.dumps(record) + "\n" for record in kept))
        for logger in self.loggers:
            logger.rewrite(kept)

    def facts(self) -> dict[str, Any]:
        return storage.read_json(self.path / "run.json")


def open_run_of(
    config: Any, /, own: Mapping[str, Finder] | None = None, **options: Any
) -> AbstractContextManager[RunFolder]:
    """`open_run` of a configuration: its output folder, its values and the files that it names.

    own: as in `inputs_of`; options: as in `open_run`.
    """
    inputs = partial(inputs_of, config, own=own)
    return open_run(config.output, configuration.to_dict(config), inputs=inputs, **options)


@contextmanager
def open_training(
    config: Any, device: torch.device, own: Mapping[str, Finder] | None = None, **options: Any
) -> Iterator[RunFolder]:
    """`open_run_of` in the processes that train. Raises ConfigError if a step has fewer micro-batches than they are."""
    with joined(config.output, device) as group, open_run_of(config, own, group=group, **options) as run:
        check_processes(config, group)
        yield run


@contextmanager
def open_run(
    path: Path,
    recipe: dict[str, Any],
    *,
    restart: bool = False,
    group: Group | None = None,
    callbacks: Sequence[Callback] = (),
    inputs: Callable[[bool], Inputs] | None = None,
) -> Iterator[RunFolder]:
    """Lock the run folder `path` for `recipe`: a new, interrupted or finished run.

    recipe: plain values, as `core.config.to_dict` returns; group: the processes that train, of which the first one
    locks, writes and calls the callbacks, and the others check that they see the same folder; inputs: returns the files
    that the recipe reads (its argument: whether the run is finished). Raises RunError when another process uses the
    folder, when it contains a run with other settings or of other data (the message lists the differences) or anything
    but a run, or when a restart would delete an input of the recipe. Invalid input (InputError,
    ModelFolderError, MissingFileError, MissingExtraError) before the first step leaves no folder.
    """
    group = Group() if group is None else group
    called = Callbacks(callbacks)
    check_same(group, "settings", {**recipe, **_versions()})
    if not group.is_main:
        _check_visible(path, group.from_main(lambda: None), group)
        yield RunFolder(path, recipe, group)
        return
    _check_encodable(recipe)
    if path.is_file():
        raise RunError(f"{path} is a file: pass a folder for the run.")
    if path.is_dir() and not (path / "config.toml").exists() and any(map(_is_foreign, path.iterdir())):
        raise RunError(
            f"{path} is not empty and does not contain a run (no config.toml): choose another folder for the run."
        )
    for logger in loggers_of(path, recipe):
        logger.check()
    with storage.lock(path):
        storage.remove_leftovers(path)
        if restart:
            _check_inputs_outside(path, recipe)
            _clear(path)
        is_new = not (path / "config.toml").exists()
        found = None if inputs is None else inputs((path / RESULT).exists())
        if is_new:
            facts = {
                **_versions(),
                "machine": f"{platform.system()} {platform.machine()}",
                "threads": torch.get_num_threads(),
                "processes": group.world,
                "started": time.strftime("%Y-%m-%d %H:%M:%S"),
            }
            storage.write_json(path / "run.json", facts)
            if found is not None:
                found.write(path)
            import tomli_w  # not needed for training without a run folder

            storage.write_text(path / "config.toml", tomli_w.dumps(recipe))
        else:
            _check_same(path, recipe, found)
        run = RunFolder(path, recipe, group, called, found)
        _note_environment_changes(run)
        _add_logs(run)
        try:
            if group.world > 1:  # another process may find invalid input as soon as it has the answer
                group.from_main(lambda: storage.read_bytes(path / ".lock").decode())
            yield run
        except (ValueError, MissingFileError, MissingExtraError):
            if is_new and not any(path.rglob(METRICS)) and not any((path / name).exists() for name in FINISHED):
                # invalid input before the first step of the run, its seeds and parts: leave no incomplete run
                _clear(path)
                (path / ".lock").unlink(missing_ok=True)
                path.rmdir()
            raise
        finally:
            run.close()


def is_recorded_without(path: Path, setting: str) -> bool:
    """Whether the folder contains a run of an older version, which did not have this setting."""
    recipe = path / "config.toml"
    return recipe.is_file() and setting not in configuration.read_toml(recipe)


def _check_visible(path: Path, owner: str, group: Group) -> None:
    """Raise RunError unless the folder is that of the first process, which wrote `owner` to its lock file."""
    ends = time.monotonic() + VISIBLE_SECONDS
    while True:
        with suppress(MissingFileError):  # yet, or because the first process found invalid input
            if storage.read_bytes(path / ".lock").decode() == owner:
                return
        group.raise_failure()
        if time.monotonic() > ends:
            raise RunError(
                f"{path} on {platform.node()} is not the run folder of the first process ({owner}): use a folder on a "
                "file system that all machines share."
            )
        time.sleep(0.2)


def _add_logs(run: RunFolder) -> None:
    """Give a logger the records that a run, and each of its seeds, logged before it was named."""
    for folder in (run, *(RunFolder(path, run.recipe) for path in run.path.glob("seed-*"))):
        for logger in folder.loggers:
            if folder.metrics_path.exists() and not logger.path.exists():
                logger.rewrite(folder.records())
                logger.close(folder.result is not None)


def kind_of(recipe: Mapping[str, Any]) -> str:
    """The kind of run that a recipe describes: "a fine-tuning run"."""
    return next((_KINDS[key] for key in _KINDS if key in recipe), "another run")


def _check_same(path: Path, recipe: dict[str, Any], inputs: Inputs | None) -> None:
    """Raise RunError unless the folder contains a run with these settings and inputs."""
    old, new = configuration.read_toml(path / "config.toml"), json.loads(json.dumps(recipe))
    equal = (
        set()
        if inputs is None
        else check_same_inputs(path, inputs, {name for name in old if old[name] == new.get(name)})
    )
    for name in {*_CHANGEABLE, *equal}:
        old.pop(name, None)
        new.pop(name, None)
    kinds = [kind_of(known) for known in (old, new)]
    if kinds[0] != kinds[1]:
        raise RunError(
            f"{path} contains {kinds[0]}, not {kinds[1]}: choose another -o folder, or use --restart to discard it."
        )
    # A setting that an older version did not have, and that is off, does not change the run.
    new = {name: value for name, value in new.items() if name in old or value not in (False, 0, [])}
    differing = configuration.differences(old, new)
    if differing:
        raise RunError(
            f"{path} contains a run with other settings: {'; '.join(differing)}. Use the same settings to resume it, "
            "another -o folder for a new run, or --restart to discard it and restart from scratch."
        )


def check_same_inputs(path: Path, inputs: Inputs, settings: set[str], *, can_restart: bool = True) -> set[str]:
    """Compare the files of unchanged settings with those that the run began with. Returns the settings whose files have
    the same content, under whatever names. Raises RunError for other files.
    """
    before = Inputs.recorded(path)
    is_finished = (path / RESULT).exists()
    if before is None:
        if inputs.files:
            rest = "" if is_finished else "; those of now are recorded"
            note(f"{path} is of an older version, which did not record its data: they cannot be compared{rest}.")
        if not is_finished:
            inputs.write(path)
        return set()
    changes = inputs.changes(before, settings)
    if changes:
        more = f"; and {len(changes) - SHOWN} more" if len(changes) > SHOWN else ""
        raise RunError(
            f"{path} contains a run of other data: {'; '.join(changes[:SHOWN])}{more}. Restore the data to "
            f"{'see its results' if is_finished else 'resume it'}, or use another -o folder for a new run"
            f"{', or --restart to discard it and restart from scratch' if can_restart else ''}."
        )
    if is_finished and (missing := inputs.missing(before)):
        note(f"{', '.join(missing)} cannot be compared with the data of this finished run: not found here.")
    return inputs.equal_settings(before)


def _check_inputs_outside(path: Path, recipe: dict[str, Any]) -> None:
    """Raise RunError when a restart would discard a file that the recipe reads."""
    root = path.resolve()
    for name, value in recipe.items():
        for entry in value if isinstance(value, list) else [value]:
            path_of = str(entry).partition(":")[2] if name == "multi_task" and ":" in str(entry) else entry
            if name == "output" or not isinstance(path_of, str) or not (found := Path(path_of).resolve()).exists():
                continue
            if found.is_relative_to(root):
                raise RunError(
                    f"--restart would discard {path}, and '{name}' reads {entry} in it: choose another -o folder."
                )


def _check_encodable(recipe: dict[str, Any]) -> None:
    """Raise InputError for a setting that config.toml cannot store: a file name that is not UTF-8."""
    for name, value in recipe.items():
        try:
            repr(value).encode("utf-8")
            str(value).encode("utf-8")
        except UnicodeEncodeError:
            raise InputError(
                f"Setting '{name}' ({value!a}) contains bytes that are not UTF-8: rename the file or folder."
            ) from None


def _clear(path: Path) -> None:
    """Delete a run. config.toml is deleted last, because it identifies the folder as a run."""
    for entry in sorted(path.iterdir()):
        if entry.name in ("config.toml", ".lock"):
            continue
        storage.remove_folder(entry) if entry.is_dir() else entry.unlink()
    (path / "config.toml").unlink(missing_ok=True)


def _is_foreign(entry: Path) -> bool:
    """Whether a run that was killed during its first writes cannot have left this entry."""
    return entry.name not in (".lock", "run.json", INPUTS) and ".tmp-" not in entry.name


def _versions() -> dict[str, str]:
    return {"maskwright": __version__, "torch": torch.__version__, "python": platform.python_version()}


def _note_environment_changes(run: RunFolder) -> None:
    facts = run.facts()
    for name, now in (("threads", torch.get_num_threads()), ("torch", torch.__version__)):
        if facts.get(name) != now:
            note(
                f"This run began with {name} {facts.get(name)} and resumes with {now}: the last bits of "
                "its result may differ."
            )
    before, now = facts.get("processes", 1), run.group.world
    if before != now:
        note(
            f"This run began with {plural(before, 'process', 'processes')} and resumes with {now}: it sees the same "
            "samples in the same order; the last digits of its result may differ."
        )
