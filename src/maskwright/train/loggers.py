"""The log of a run for other programs (--log): TensorBoard's event file, Weights & Biases, MLflow.

A logger is made as `Logger(folder, recipe)`, which writes nothing. Its `path` exists once it has written something;
`check` raises MissingExtraError; `append` adds one record of metrics.jsonl; `rewrite` gives the whole log after it was
rolled back to a checkpoint, or to a logger that was named later; `close` ends the work of this process.
"""

from __future__ import annotations

import math
import os
import secrets
import struct
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

from ..core import registry, storage
from ..core.errors import MissingExtraError
from ..core.progress import warn

Record = Mapping[str, Any]
_NOT_SHOWN = ("step", "time", "seconds", "tokens")


def loggers_of(folder: Path, recipe: Mapping[str, Any]) -> list[Any]:
    """The loggers that the recipe names, and those that have begun: otherwise they would lack the new steps."""
    named = {*recipe.get("log", ()), *(["tensorboard"] if recipe.get("tensorboard") else [])}
    made = {name: registry.resolve("logger", name)(folder, recipe) for name in registry.names("logger")}
    return [one for name, one in made.items() if name in named or one.path.exists()]


def scalars(record: Record) -> dict[str, float]:
    """The scalars of a record by tag: "train/loss", "eval/mlm_accuracy", "speed/tokens_per_second"."""
    found = {}
    for name, value in record.items():
        if name in _NOT_SHOWN or isinstance(value, bool) or not isinstance(value, (int, float)):
            continue
        group = "eval" if name.startswith("eval_") else "speed" if name.endswith("_per_second") else "train"
        found[f"{group}/{name.removeprefix('eval_')}"] = float(value)
    return found


# -- TensorBoard -----------------------------------------------------------------------------------------------------
#
# The file is a sequence of blocks: length (uint64), checksum of the length, data, checksum of the data, all
# little-endian. The checksum is CRC-32C (polynomial 0x1EDC6F41), masked. The data is one protocol buffer:
#
#     Event    wall_time = 1 (double)   step = 2 (varint)   file_version = 3 (string)   summary = 5 (Summary)
#     Summary  value = 1 (Value, repeated)
#     Value    tag = 1 (string)   simple_value = 2 (float)
#
# The tensorboard package appends to a file of each process and cannot remove the steps that a resumed run repeats.

NAME = "events.out.tfevents.maskwright"  # TensorBoard takes every file with "tfevents" in its name
_LARGEST = 3.4028234663852886e38  # of a float of four bytes
_VARINT, _DOUBLE, _BYTES, _FLOAT = 0, 1, 2, 5  # wire types


class EventFile:
    """The TensorBoard events of one run folder. The content is a function of the records only."""

    def __init__(self, folder: Path, recipe: Mapping[str, Any] | None = None) -> None:
        self.path = folder / NAME

    def check(self) -> None:
        """Writing needs no package."""

    def close(self, is_finished: bool) -> None:
        """Every record is already on disk."""

    def append(self, record: Record) -> None:
        begin = b"" if self.path.exists() else _block(_first_event(record))
        storage.append_bytes(self.path, begin + _block(_event(record)))

    def rewrite(self, records: Iterable[Record]) -> None:
        """Replace the file by these records, so that no step appears twice."""
        records = list(records)
        events = [_first_event(records[0] if records else {}), *map(_event, records)]
        storage.write_bytes(self.path, b"".join(map(_block, events)))


def _first_event(record: Record) -> bytes:
    return _field(1, _DOUBLE, struct.pack("<d", record.get("time", 0.0))) + _field(3, _BYTES, b"brain.Event:2")


def _event(record: Record) -> bytes:
    values = b"".join(
        _field(1, _BYTES, _field(1, _BYTES, tag.encode()) + _field(2, _FLOAT, _float(value)))
        for tag, value in scalars(record).items()
    )
    time = _field(1, _DOUBLE, struct.pack("<d", record.get("time", 0.0)))
    return time + _field(2, _VARINT, _varint(int(record["step"]))) + _field(5, _BYTES, values)


def _field(number: int, wire_type: int, data: bytes) -> bytes:
    length = _varint(len(data)) if wire_type == _BYTES else b""
    return _varint(number << 3 | wire_type) + length + data


def _float(value: float) -> bytes:
    """Four bytes; values out of range become infinite."""
    return struct.pack("<f", math.copysign(math.inf, value) if abs(value) > _LARGEST else value)


def _varint(value: int) -> bytes:
    """Seven bits per byte, lowest first; the high bit marks that more follow."""
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def _block(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + _checksum(length) + data + _checksum(data)


def _checksum(data: bytes) -> bytes:
    """CRC-32C, masked (rotated by 15, plus a constant), because the data may itself contain a checksum."""
    table, crc = _table(), 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


@cache
def _table() -> tuple[int, ...]:
    """The checksum of each byte, by the reversed polynomial."""
    table = []
    for crc in range(256):
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)  # noqa: PLW2901
        table.append(crc)
    return tuple(table)


# -- Tracking programs -----------------------------------------------------------------------------------------------
#
# Such a program has no rollback, so repeated steps are not sent again. A small file in the run folder has the name of
# the run in the program and the number of records sent. The records of a resumed run are those that it had before, so
# skipping the first ones sent loses nothing.


class Tracker:
    """A logger of a tracking program. name: of its extra and of its module.

    A subclass has `begin(run)`, which begins a run, or continues `run`, and returns its name in the program;
    `send(records)`; and `end(is_finished)`, which is also called when nothing was sent.
    """

    name: ClassVar[str]
    begin: Any
    send: Any
    end: Any

    def __init__(self, folder: Path, recipe: Mapping[str, Any]) -> None:
        self.folder, self.path = folder, folder / f"{self.name}.json"
        self.recipe = {name: str(value) for name, value in recipe.items() if value not in (None, "", (), [], {})}
        state: dict[str, Any] = storage.read_json(self.path) if self.path.exists() else {"run": None, "sent": 0}
        self._run, self._sent = state["run"], state["sent"]
        self._position = self._sent  # records that the log has
        self._is_broken = False

    def check(self) -> None:
        if find_spec(self.name) is None:
            raise MissingExtraError(f"--log {self.name}", self.name)

    def append(self, record: Record) -> None:
        self._position += 1
        if self._position > self._sent:
            self._attempt(self._send, [record])

    def rewrite(self, records: Iterable[Record]) -> None:
        """Send those of the records that were not sent."""
        records = list(records)
        self._position = len(records)
        if records[self._sent :]:
            self._attempt(self._send, records[self._sent :])

    def close(self, is_finished: bool) -> None:
        """End the run in the program, if this process sent anything."""
        self._attempt(self.end, is_finished)

    def _send(self, records: Sequence[Record]) -> None:
        self._run = self.begin(self._run)
        self.send(records)
        self._sent += len(records)
        storage.write_json(self.path, {"run": self._run, "sent": self._sent})

    def _attempt(self, action: Any, *arguments: Any) -> None:
        """A failure of the program is none of the training: warn once; a resumed run sends what is missing."""
        if self._is_broken:
            return
        try:
            action(*arguments)
        except Exception as error:  # whatever the program raises
            self._is_broken = True
            warn(f"{self.name} failed ({error}): training continues without it, and the log has everything.")


class WandbLogger(Tracker):
    """A run of Weights & Biases. Without WANDB_MODE=online it is written to `wandb/` in the run folder."""

    name: ClassVar[str] = "wandb"
    _open: Any = None

    def begin(self, run: str | None) -> str:
        if self._open is None:
            import wandb

            mode: Any = os.environ.get("WANDB_MODE", "offline")  # wandb checks it
            self._open = wandb.init(
                project=os.environ.get("WANDB_PROJECT", "maskwright"),
                dir=str(self.folder),
                id=run or secrets.token_hex(8),
                name=os.environ.get("WANDB_NAME", str(self.folder)),
                resume="allow",
                mode=mode,
                config=self.recipe,
                reinit="create_new",
                settings=wandb.Settings(console="off", silent=True, disable_git=True, disable_code=True),
            )
        return str(self._open.id)

    def send(self, records: Sequence[Record]) -> None:
        for record in records:
            self._open.log(scalars(record), step=record["step"])

    def end(self, is_finished: bool) -> None:
        if self._open is not None:
            self._open.finish(exit_code=0 if is_finished else 1)
            self._open = None


class MlflowLogger(Tracker):
    """A run of MLflow. Without MLFLOW_TRACKING_URI it is written to `mlflow.db` in the run folder."""

    name: ClassVar[str] = "mlflow"
    most = 1000  # metrics that MLflow accepts in a request
    _client: Any = None

    def begin(self, run: str | None) -> str:
        if self._client is None:
            from mlflow import MlflowClient

            place = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{(self.folder / 'mlflow.db').resolve()}"
            self._client = MlflowClient(tracking_uri=place)
            if run is None:
                name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "maskwright")
                found = self._client.get_experiment_by_name(name)
                experiment = self._client.create_experiment(name) if found is None else found.experiment_id
                run = self._client.create_run(experiment, run_name=str(self.folder)).info.run_id
                for key, value in self.recipe.items():
                    self._client.log_param(run, key, value)
            else:
                self._client.update_run(run, status="RUNNING")
            self._id = run
        return str(self._id)

    def send(self, records: Sequence[Record]) -> None:
        from mlflow.entities import Metric

        metrics = [
            Metric(name, value, round(record.get("time", 0.0) * 1000), record["step"])
            for record in records
            for name, value in scalars(record).items()
            if math.isfinite(value)
        ]
        for start in range(0, len(metrics), self.most):
            self._client.log_batch(self._id, metrics=metrics[start : start + self.most])

    def end(self, is_finished: bool) -> None:
        if self._client is not None:
            self._client.set_terminated(self._id, "FINISHED" if is_finished else "KILLED")
            self._client = None
