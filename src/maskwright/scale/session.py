"""Ray, and the workers that make parts with Ray Data."""

from __future__ import annotations

import json
import logging
import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ..core.errors import ConfigError, MissingExtraError, RunError
from ..core.progress import track
from ..core.util import plural, usable_cores
from .parts import Worker

WORKER_CPUS = 0.5  # claimed by a worker: with whole CPUs nothing would be left for Ray's own tasks, which then wait
STORE_BYTES = 256 << 20  # of Ray's object store: only names and facts pass through it
MOST_TASKS = 4096


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
