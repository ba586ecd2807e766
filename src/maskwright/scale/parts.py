"""Parts of a result on local disks and object stores, made by workers of Ray Data.

The name of a part has a digest of everything that decides its content. A part is finished when its note in `_done/`
exists; a rerun makes only those that are missing, and whoever makes one again writes the same content.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ..core.errors import ConfigError, InputError, MaskwrightError, MissingExtraError, RowError, RowErrors, RunError
from ..core.object_store import file_system, storage_errors
from ..core.progress import note, track
from ..core.util import plural, usable_cores

DONE = "_done"
ATTEMPTS, PAUSE_SECONDS = 4, 2.0  # of a part whose reading or writing fails, as on a busy object store

Items = Mapping[str, dict[str, Any]]
"""What workers get, by name of the part, in the order of the input: "name", "uri" of the input, and what they need."""
WORKER_CPUS = 0.5  # claimed by a worker: with whole CPUs nothing would be left for Ray's own tasks, which then wait
STORE_BYTES = 256 << 20  # of Ray's object store: only names and facts pass through it
MOST_TASKS = 4096


def remove(uri: str) -> None:
    """Remove a file."""
    system, path = file_system(uri)
    with storage_errors(uri):
        system.delete_file(path)


def write(uri: str, data: bytes) -> None:
    """Write a small file at once: under another name first on a disk, in one request on an object store."""
    system, path = file_system(uri)
    with storage_errors(uri):
        write_stream(system, path, lambda sink: sink.write(data))


def read_json(uri: str) -> dict[str, Any]:
    """Read a small file."""
    system, path = file_system(uri)
    with storage_errors(uri), system.open_input_stream(path) as source:
        found: dict[str, Any] = json.loads(source.read())
    return found


def write_stream(system: Any, path: str, fill: Any) -> None:
    """Write the file that `fill(sink)` fills. It has its name only when it is complete."""
    is_local = system.type_name == "local"
    name = f"{path}.tmp-{os.getpid()}" if is_local else path
    system.create_dir(path.rpartition("/")[0], recursive=True)
    with system.open_output_stream(name) as sink:
        fill(sink)
    if is_local:
        descriptor = os.open(name, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        system.move(name, path)


def sha256(system: Any, path: str) -> str:
    """The digest of a file, as it is stored."""
    digest = hashlib.sha256()
    with system.open_input_stream(path) as source:
        while data := source.read(1 << 20):
            digest.update(data)
    return digest.hexdigest()


def names_in(uri: str) -> list[str]:
    """The names of the files in a folder; none if it does not exist."""
    from pyarrow import fs

    system, path = file_system(uri)
    selector = fs.FileSelector(path, allow_not_found=True)
    with storage_errors(uri):
        return sorted(one.base_name for one in system.get_file_info(selector) if one.type == fs.FileType.File)


def part_name(prefix: str, decisive: Mapping[str, Any], ending: str) -> str:
    """The name of a part, with a digest of what decides its content."""
    text = json.dumps(decisive, sort_keys=True)
    return f"part-{prefix}-{hashlib.sha256(text.encode()).hexdigest()[:16]}.{ending}"


class Worker(ABC):
    """Makes parts in a folder; made once in each worker process."""

    def __init__(self, output: str) -> None:
        self.output = output

    @abstractmethod
    def make_part(self, name: str, item: dict[str, Any]) -> dict[str, Any]:
        """Write a part. Returns its facts, with "name"."""

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Ray Data's function of a batch: items as JSON in the column "item"; facts as JSON in "facts"."""
        return {"facts": np.array([json.dumps(self.compute(json.loads(item))) for item in batch["item"]], dtype=object)}

    def compute(self, item: dict[str, Any]) -> dict[str, Any]:
        """Make one part. Returns its facts, or its bad rows ("bad_rows"), or why it failed ("error")."""
        name = item["name"]
        for attempt in range(1, ATTEMPTS + 1):
            try:
                facts = self.make_part(name, item)
                write(_note_of(self.output, name), json.dumps(facts).encode())
                return facts
            except RowErrors as error:
                return {"name": name, "bad_rows": [asdict(row) for row in error.rows], "rows": error.num_good}
            except MaskwrightError as error:
                return {"name": name, "error": str(error)}
            except OSError as error:
                if attempt == ATTEMPTS:
                    return {"name": name, "error": f"{item['uri']} failed {ATTEMPTS} times: {error}"}
                time.sleep(PAUSE_SECONDS * attempt)
        raise AssertionError("every attempt returns or fails")


def complete(
    output: str, items: Items, compute: Callable[[list[dict[str, Any]]], dict[str, dict[str, Any]]]
) -> list[dict[str, Any]]:
    """Let `compute` make the parts of a folder that are missing. Returns the facts of all, in the order of the items.

    Raises RunError when the folder has parts of other inputs or settings, RowErrors or InputError when parts failed.
    """
    names = names_in(output)
    others = sorted(name for name in names if name.startswith("part-") and name not in items and ".tmp-" not in name)
    if others:
        raise RunError(
            f"{output} has results of other inputs, settings or another model ({others[0]}): choose another folder."
        )
    finished = noted(output) & set(names)
    missing = [item for name, item in items.items() if name not in finished]
    if len(missing) < len(items):
        note(f"{len(items) - len(missing)} of {plural(len(items), 'part')} were finished before.")
    facts = {name: read_note(output, name) for name in items if name in finished}
    if missing:
        facts |= compute(missing)
    if failed := [one["error"] for one in facts.values() if "error" in one]:
        more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
        raise InputError(f"{failed[0]}{more}")
    if bad := [RowError(**row) for one in facts.values() for row in one.get("bad_rows", ())]:
        raise RowErrors(bad, sum(one["rows"] for one in facts.values()))
    return [facts[name] for name in items]


def noted(output: str) -> set[str]:
    """The parts that have been finished."""
    return {name.removesuffix(".json") for name in names_in(f"{output}/{DONE}")}


def read_note(output: str, name: str) -> dict[str, Any]:
    """The facts of a finished part."""
    return read_json(_note_of(output, name))


def _note_of(output: str, name: str) -> str:
    return f"{output}/{DONE}/{name}.json"


# -- Ray -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Workers:
    """The workers of a job. kind: their class; arguments: for a device and a number of threads; count: None for one per
    GPU, or per machine without GPUs; per_cpu: instead one per CPU.
    """

    kind: type[Worker]
    arguments: Callable[[str, int], dict[str, Any]]
    count: int | None
    device: str = "cpu"
    per_cpu: bool = False

    def compute(self, items: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
        """The facts of parts by name, in any order; a part whose worker dies is made again by another."""
        with _session() as ray:
            resources = ray.cluster_resources()
            gpus, cpus = int(resources.get("GPU", 0)), resources.get("CPU", 1.0)
            machines = sum(node["Alive"] for node in ray.nodes())
            on_gpu = self.device != "cpu" and gpus > 0
            usual = gpus if on_gpu else max(1, int(cpus)) if self.per_cpu else machines
            workers = min(self.count or usual, len(items))
            most = gpus if on_gpu else int((cpus - WORKER_CPUS) / WORKER_CPUS)
            if workers > most:
                raise ConfigError(
                    f"--workers is {workers}; this cluster has room for {most}: lower it, or add machines."
                )
            threads = max(1, int(cpus) // machines // math.ceil(workers / machines))  # on CPUs; a GPU needs few
            data = ray.data.from_items([{"item": json.dumps(item)} for item in items])
            data = data.repartition(min(len(items), MOST_TASKS)) if len(items) > 1 else data
            found = data.map_batches(
                self.kind,
                fn_constructor_kwargs=self.arguments("cuda" if on_gpu else "cpu", threads),
                batch_size=1,
                compute=ray.data.ActorPoolStrategy(size=workers),
                num_cpus=WORKER_CPUS,
                num_gpus=1 if on_gpu else 0,
            )
            facts = {}
            with track(f"{plural(workers, 'worker')}", len(items), "parts") as progress:
                for row in found.iter_rows():
                    one = json.loads(row["facts"])
                    facts[one["name"]] = one
                    progress.update(len(facts))
            return facts


@contextmanager
def _session() -> Iterator[Any]:
    """Ray: the cluster of RAY_ADDRESS, or one on this machine that ends with the block."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # it warns of restarts that work
    try:
        import ray
        import ray.data
    except ImportError:
        raise MissingExtraError("maskwright scale", "scale") from None
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    address = os.environ.get("RAY_ADDRESS")
    own: dict[str, Any] = {"num_cpus": usable_cores(), "include_dashboard": False, "object_store_memory": STORE_BYTES}
    try:
        ray.init(address=address, logging_level="ERROR", log_to_driver=False, **({} if address else own))
    except (OSError, RuntimeError, ValueError) as error:
        where = f"cannot be reached at RAY_ADDRESS={address}" if address else "cannot start on this machine"
        raise RunError(f"Ray {where}: {str(error).splitlines()[0]}") from None
    try:
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        context.print_on_execution_start = False
        yield ray
    finally:
        ray.shutdown()
