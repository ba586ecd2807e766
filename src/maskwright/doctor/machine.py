"""What this machine and this installation can do, and what `auto` picks here and why."""

from __future__ import annotations

import os
import platform
import re
from importlib import metadata
from typing import Any

import torch

from ..core.cores import usable_cores
from ..inference.engine.choice import choose
from ..models.device import DTYPES, resolve_device, resolve_precision
from ..nn.varlen import missing
from ..train.compiled import WORTH_STEPS, choose_compiling

_CORE = ("torch", "numpy", "tokenizers", "safetensors", "scikit-learn", "typer", "rich", "tomli-w")
USUAL_HEAD = 64  # the width of heads in the published networks from 512 on
_REQUIREMENT = re.compile(r"""^([A-Za-z0-9._-]+).*;.*extra\s*==\s*['"]([\w-]+)['"]""")


def machine_facts() -> dict[str, Any]:
    """Processor, memory, devices, versions, extras, and the automatic choices with their reasons."""
    device = resolve_device()
    return {
        "system": platform.platform(),
        "python": platform.python_version(),
        "processor": {"cores": os.cpu_count(), "usable_cores": usable_cores(), "threads": torch.get_num_threads()},
        "instruction_sets": instruction_sets(),
        "memory_bytes": memory_bytes(),
        "devices": devices(),
        "engine": engine_choices(device),
        "training": training_choices(device),
        "picked": {"device": str(device), "why_device": _why_device(device), **_precisions(device)},
        "versions": {name: _version(name) for name in ("maskwright", *_CORE)},
        "extras": extras(),
    }


def instruction_sets() -> list[str]:
    """Those of the processor that torch knows of; [] where it cannot say."""
    ask = getattr(torch.cpu, "get_capabilities", None)
    return sorted(name for name, has in ask().items() if has is True) if ask is not None else []


def memory_bytes() -> int | None:
    """Main memory; None where the system does not say."""
    if not hasattr(os, "sysconf") or "SC_PHYS_PAGES" not in os.sysconf_names:
        return None
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def devices() -> list[dict[str, Any]]:
    """Where can be computed: name and memory of each."""
    found: list[dict[str, Any]] = [{"device": "cpu", "name": platform.processor() or platform.machine()}]
    for number in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        facts = torch.cuda.get_device_properties(number)
        found.append({"device": f"cuda:{number}", "name": facts.name, "memory_bytes": facts.total_memory})
    if torch.backends.mps.is_available():
        found.append({"device": "mps", "name": "Apple GPU"})
    return found


def engine_choices(device: torch.device) -> dict[str, dict[str, str]]:
    """For each number format of inference what multiplies on the device that `auto` picks, and why."""
    return {name: vars(choose(name, device)) for name in ("fp32", "bf16", "int8")}


def training_choices(device: torch.device) -> dict[str, dict[str, str]]:
    """What training (and what is said, inference) does on the device that `auto` picks, and why."""
    dtype = DTYPES[resolve_precision("auto", device)]
    lacking = missing(dtype, device, USUAL_HEAD)
    compiling = choose_compiling("auto", device, steps=WORTH_STEPS)
    is_gpu = device.type == "cuda"
    alone = "a thread would take a core from the products" if device.type == "cpu" else "only a GPU is waited for"
    return {
        "attention": {
            "picked": "runs of equal length" if lacking else "one kernel for a whole pack",
            "why": lacking or f"it has the explicit product's numbers here, heads of {USUAL_HEAD}",
        },
        "layers": {"picked": "compiled" if compiling.compiles else "plain", "why": compiling.why},
        "batches": {
            "picked": "made ahead" if is_gpu else "made when they are needed",
            "why": "a thread makes the next step's while the GPU computes" if is_gpu else alone,
        },
        "small requests": {
            "picked": "kernel by kernel" if lacking else "recorded graphs",
            "why": lacking or "all kernels of a request start at once",
        },
    }


def extras() -> dict[str, list[str]]:
    """For each optional extra of this installation the packages that are missing; [] where it is complete."""
    try:
        required = metadata.requires("maskwright") or []
    except metadata.PackageNotFoundError:
        return {}
    lacking: dict[str, list[str]] = {}
    for requirement in required:
        found = _REQUIREMENT.match(requirement)
        if found is None or found[1].lower() == "maskwright":  # extras that join others
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


def _why_device(device: torch.device) -> str:
    return {
        "cuda": "torch sees an NVIDIA or AMD GPU",
        "mps": "torch sees an Apple GPU",
        "cpu": "torch sees no GPU",
    }[device.type]


def _precisions(device: torch.device) -> dict[str, str]:
    chosen = resolve_precision("auto", device)
    why = "it multiplies bfloat16 in hardware" if chosen == "bf16" else "it has no fast bfloat16"
    return {"precision": chosen, "why_precision": why}
