"""The driver of a bulk inference: plan blocks, let Ray Data compute the missing ones, write the manifest last."""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from ..core import storage
from ..core.cores import usable_cores
from ..core.errors import ConfigError, MissingExtraError, RunError
from ..core.plural import plural
from ..core.progress import note, track
from ..hub.download import find_folder
from .blocks import blocks_of
from .job import DONE, BlockWorker, Job, note_of, raise_errors
from .paths import RowFile, file_system, names_in, row_files, write

MANIFEST = "_manifest.json"
WORKER_CPUS = 0.5  # claimed by a worker: with whole CPUs nothing would be left for Ray's own tasks, which then wait
STORE_BYTES = 256 << 20  # of Ray's object store: only names and facts pass through it
MOST_TASKS = 4096


def run(job: Job, inputs: Sequence[str], workers: int | None, device: str) -> dict[str, Any]:
    """Compute all parts of a job that are missing. Returns the manifest.

    inputs: files, folders and patterns. workers: None for one per GPU, or per machine without GPUs. Raises RunError
    when the output folder has results of other inputs or settings.
    """
    items = _items(job, row_files(inputs))
    names = names_in(job.output)
    others = sorted(name for name in names if name.startswith("part-") and name not in items and ".tmp-" not in name)
    if others:
        raise RunError(
            f"{job.output} has results of other inputs, settings or another model ({others[0]}): choose another folder."
        )
    finished = {name.removesuffix(".json") for name in names_in(f"{job.output}/{DONE}")} & set(names)
    missing = [item for name, item in items.items() if name not in finished]
    if len(missing) < len(items):
        note(f"{len(items) - len(missing)} of {plural(len(items), 'part')} were finished before.")
    facts = {name: _read_json(note_of(job, name)) for name in items if name in finished}
    if missing:
        facts |= _compute(job, missing, workers, device)
    raise_errors(facts.values())
    parts = [facts[name] for name in items]
    manifest = {
        "job": asdict(job),
        "rows": sum(part["rows"] for part in parts),
        "skipped": sum(part["skipped"] for part in parts),
        "parts": parts,
    }
    write(f"{job.output}/{MANIFEST}", json.dumps(manifest, indent=1).encode())
    return manifest


def digest_of_model(name: str) -> str:
    """A digest of the files of a model folder."""
    folder = find_folder(name)[0]
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    listed = [(str(path.relative_to(folder)), storage.sha256(path)) for path in files]
    return hashlib.sha256(json.dumps(listed).encode()).hexdigest()


def _items(job: Job, files: Sequence[RowFile]) -> dict[str, dict[str, Any]]:
    """What workers get, by name of the part, in the order of the input."""
    found = {}
    for number, file in enumerate(files):
        for index, block in enumerate(blocks_of(file)):
            name = job.part_name(number, index, block, file.size)
            found[name] = {"name": name, "block": block.to_dict()}
    return found


def _read_json(uri: str) -> dict[str, Any]:
    system, path = file_system(uri)
    with system.open_input_stream(path) as source:
        found: dict[str, Any] = json.loads(source.read())
    return found


def _compute(job: Job, items: list[dict[str, Any]], workers: int | None, device: str) -> dict[str, dict[str, Any]]:
    """The facts of blocks, by name of the part, in any order; a block whose worker dies is repeated by another."""
    with _session() as ray:
        resources = ray.cluster_resources()
        gpus, cpus = int(resources.get("GPU", 0)), resources.get("CPU", 1.0)
        machines = sum(node["Alive"] for node in ray.nodes())
        on_gpu = device != "cpu" and gpus > 0
        workers = min(workers or (gpus if on_gpu else machines), len(items))
        most = gpus if on_gpu else int((cpus - WORKER_CPUS) / WORKER_CPUS)
        if workers > most:
            raise ConfigError(f"--workers is {workers}; this cluster has room for {most}: lower it, or add machines.")
        threads = max(1, int(cpus) // machines // math.ceil(workers / machines))  # on CPUs; a GPU needs few
        data = ray.data.from_items([{"item": json.dumps(item)} for item in items])
        data = data.repartition(min(len(items), MOST_TASKS)) if len(items) > 1 else data
        found = data.map_batches(
            BlockWorker,
            fn_constructor_kwargs={"job": asdict(job), "device": "cuda" if on_gpu else "cpu", "threads": threads},
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
    ray.init(address=address, logging_level="ERROR", log_to_driver=False, **({} if address else own))
    try:
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        context.print_on_execution_start = False
        yield ray
    finally:
        ray.shutdown()
