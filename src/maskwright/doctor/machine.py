"""Hardware, installation, and the choices that `auto` makes on this machine."""

from __future__ import annotations

import os
import platform
import re
from importlib import metadata
from typing import Any

import torch

from ..core.util import AUTO, OWN, usable_cores
from ..export.executors import FORMATS, fastest, installed, measurements
from ..inference.engine.choice import choose, choose_layers
from ..models.device import DTYPES, bf16_time, resolve_device, resolve_precision
from ..nn.attention import missing
from ..nn.native import training
from ..nn.native.library import instruction_sets
from ..train.pretraining.job import WORTH_STEPS, choose_compiling

_CORE = ("torch", "numpy", "tokenizers", "safetensors", "scikit-learn", "typer", "rich", "tomli-w")
USUAL_HEAD = 64  # head size of published models with a hidden size of 512 or more
_REQUIREMENT = re.compile(r"""^([A-Za-z0-9._-]+).*;.*extra\s*==\s*['"]([\w-]+)['"]""")


def machine_facts() -> dict[str, Any]:
    """Return CPU, memory, devices, versions, extras, and the automatic choices with their reasons."""
    device = resolve_device()
    precision = resolve_precision("auto", device)
    why_device = {
        "cuda": "torch found an NVIDIA or AMD GPU",
        "mps": "torch found an Apple GPU",
        "cpu": "torch found no GPU",
    }[device.type]
    why_precision = "it supports bfloat16 in hardware" if precision == "bf16" else "it has no fast bfloat16"
    if device.type == "cpu" and (time := bf16_time()) is not None:
        why_precision = f"a product in bfloat16 takes {time:.2f} times as long as in float32"
    return {
        "system": platform.platform(),
        "python": platform.python_version(),
        "processor": {"cores": os.cpu_count(), "usable_cores": usable_cores(), "threads": torch.get_num_threads()},
        "instruction_sets": sorted(instruction_sets()),
        "memory_bytes": memory_bytes(),
        "devices": devices(),
        "engine": {name: vars(choose(name, device)) for name in ("fp32", "bf16", "int8")},
        "layers": {name: vars(choose_layers(name, device)) for name in ("fp32", "bf16", "int8")},
        "training": training_choices(device),
        "executors": executors(),
        "picked": {
            "device": str(device),
            "why_device": why_device,
            "precision": precision,
            "why_precision": why_precision,
        },
        "versions": {name: _version(name) for name in ("maskwright", *_CORE)},
        "extras": extras(),
    }


def memory_bytes() -> int | None:
    """Return the size of the main memory in bytes; None if unknown."""
    if not hasattr(os, "sysconf") or "SC_PHYS_PAGES" not in os.sysconf_names:
        return None
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def devices() -> list[dict[str, Any]]:
    """Return the available devices with name and memory."""
    found: list[dict[str, Any]] = [{"device": "cpu", "name": platform.processor() or platform.machine()}]
    for number in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        facts = torch.cuda.get_device_properties(number)
        found.append({"device": f"cuda:{number}", "name": facts.name, "memory_bytes": facts.total_memory})
    if torch.backends.mps.is_available():
        found.append({"device": "mps", "name": "Apple GPU"})
    return found


def executors() -> dict[str, str]:
    """Return the programs that can compute a model (`--executor`), each with what is known of it here."""
    found = {OWN: "the default: no export, every device and precision"}
    ready = installed()
    for name in FORMATS:
        found[name] = "installed: a graph, exported at the first use" if name in ready else "needs the extra 'export'"
    for one in measurements():
        times = {name: float(value) for name, value in one["milliseconds"].items()}
        shown = ", ".join(f"{name} {value:.2f}" for name, value in times.items())
        found[f"{AUTO} for {one['model']}, {one['precision']}"] = f"{fastest(times)}: ms for a short text: {shown}"
    return found


def training_choices(device: torch.device) -> dict[str, dict[str, str]]:
    """Return how training (and small inference requests) runs on the device that `auto` selects, and why."""
    dtype = DTYPES[resolve_precision("auto", device)]
    lacking = missing(dtype, device, USUAL_HEAD)
    compiling = choose_compiling("auto", device, steps=WORTH_STEPS)
    is_gpu = device.type == "cuda"
    no_thread = "a thread would compete for the CPU cores" if device.type == "cpu" else "only useful with a GPU"
    in_cpp = "it is for float32 on a CPU" if device.type != "cpu" or dtype != torch.float32 else training.missing()
    return {
        "attention": {
            "picked": "groups of equal length" if lacking else "one variable-length kernel per batch",
            "why": lacking or f"it matches the reference attention here, head size {USUAL_HEAD}",
        },
        "attention, norms and dropout in C++": {
            "picked": "no" if in_cpp else "yes, instead of the above",
            "why": in_cpp or "training.cpp, compiled for this CPU, matches torch's operators here and takes less time",
        },
        "layers": {"picked": "compiled" if compiling.compiles else "plain", "why": compiling.why},
        "batches": {
            "picked": "prefetched" if is_gpu else "built on demand",
            "why": "a thread builds the next batch while the GPU computes" if is_gpu else no_thread,
        },
        "small requests": {
            "picked": "eager" if lacking else "CUDA graphs",
            "why": lacking or "all kernels of a request are launched at once",
        },
    }


def extras() -> dict[str, list[str]]:
    """Return the missing packages of each optional extra; [] if it is complete."""
    try:
        required = metadata.requires("maskwright") or []
    except metadata.PackageNotFoundError:
        return {}
    lacking: dict[str, list[str]] = {}
    for requirement in required:
        found = _REQUIREMENT.match(requirement)
        if found is None or found[1].lower() == "maskwright":  # an extra that only combines others
            continue
        lacking.setdefault(found[2], [])
        if _version(found[1]) is None:
            lacking[found[2]].append(found[1])
    return lacking


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
