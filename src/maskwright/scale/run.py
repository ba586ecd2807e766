"""The driver of a bulk inference: plan blocks, let Ray Data compute the missing ones, write the manifest last."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ..core import storage
from ..hub.download import find_folder
from .blocks import blocks_of
from .job import BlockWorker, Job
from .parts import complete
from .paths import RowFile, row_files, write
from .session import Workers

MANIFEST = "_manifest.json"


def run(job: Job, inputs: Sequence[str], workers: int | None, device: str) -> dict[str, Any]:
    """Compute all parts of a job that are missing. Returns the manifest.

    inputs: files, folders and patterns. workers: None for one per GPU, or per machine without GPUs. Raises RunError
    when the output folder has results of other inputs or settings.
    """
    chosen = Workers(
        BlockWorker,
        lambda device, threads: {"job": asdict(job), "device": device, "threads": threads},
        workers,
        device,
    )
    parts = complete(job.output, _items(job, row_files(inputs)), chosen.compute)
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
    """See parts.Items."""
    found = {}
    for number, file in enumerate(files):
        for index, block in enumerate(blocks_of(file)):
            name = job.part_name(number, index, block, file.size)
            found[name] = {"name": name, "uri": block.uri, "block": block.to_dict()}
    return found
