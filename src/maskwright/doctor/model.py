"""Checks a model folder: files, configuration, weights, tokenizer and their consistency."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from ..core import registry, storage
from ..core.errors import InputError, MaskwrightError
from ..core.storage import accept, changes, read_facts, verify_sealed
from ..hub.adapters import is_adapter, read_adapter_config
from ..hub.config_file import read_config
from ..hub.download import find_folder
from ..hub.folders import load_model
from ..hub.sentence import network_folder
from ..models.model import Model
from ..tasks.base import task_of_model

Problem = dict[str, str]


def examine_model(name: str | Path) -> dict[str, Any]:
    """Return the facts and problems of a model folder or Hugging Face Hub model.

    Raises MissingFileError if there is no such folder; every other error becomes an entry of `problems`.
    """
    folder, root = find_folder(name)
    problems: list[Problem] = []
    files = [
        {"file": path.relative_to(folder).as_posix(), "bytes": path.stat().st_size, "sha256": storage.sha256(path)}
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    ]
    facts: dict[str, Any] = {"folder": str(folder), "files": files, "problems": problems}

    def read_own() -> None:
        own = read_facts(folder)
        temperature = own.get("temperature")
        value = temperature.get("value") if isinstance(temperature, dict) else None
        facts.update(task=own.get("task"), max_length=own.get("max_length"), temperature=value)

    sealed = {True: "all files match", False: "none"}
    _try(problems, "manifest", lambda: facts.update(manifest=sealed[bool(verify_sealed(folder, root=root))]))
    _try(problems, "config.json", lambda: facts.update(_config(folder)))
    _try(problems, "maskwright.json", read_own)
    _try(problems, "weights and tokenizer", lambda: facts.update(_loaded(name, problems)))
    return facts


def accept_model(name: str | Path) -> dict[str, str]:
    """Update the manifest of a folder to its current files; returns the changes by file.

    Raises MissingFileError if there is no such folder, InputError for a Hugging Face Hub model ID.
    """
    folder, root = find_folder(name)
    if folder != root:
        raise InputError(
            f"{name} is a Hugging Face Hub model: files in the cache are not modified. Pass a model folder."
        )
    found = changes(folder)
    if found:
        accept(folder)
    return found


def _try(problems: list[Problem], part: str, check: Any) -> None:
    """Run a check and record what it raises as a problem, once."""
    try:
        check()
    except MaskwrightError as error:
        if str(error) not in [known["problem"] for known in problems]:
            problems.append({"part": part, "problem": str(error)})


def _config(folder: Path) -> dict[str, Any]:
    if is_adapter(folder):
        adapter, values = read_adapter_config(folder)
        return {"adapter": "lora", "rank": adapter.rank, "base": values.get("base_model_name_or_path")}
    stored = read_config(network_folder(folder))
    config = stored.config
    return {
        "family": stored.family.model_type,
        "architecture": stored.architecture,
        "layers": config.num_hidden_layers,
        "hidden_size": config.hidden_size,
        "heads": config.num_attention_heads if config.recurrent is None else None,
        "cells": config.recurrent,
        "positions": config.max_position_embeddings,
        "vocabulary": config.vocab_size,
    }


def _loaded(name: str | Path, problems: list[Problem]) -> dict[str, Any]:
    model, report = load_model(name)
    if report.new:
        problems.append(
            {"part": "weights", "problem": f"The folder lacks {len(report.new)} tensors, such as {report.new[:3]}."}
        )
    weights = () if model.graph_precision is not None else model.named_parameters()
    strange = [key for key, value in weights if not bool(torch.isfinite(value).all())]
    if strange:
        problems.append({"part": "weights", "problem": f"These tensors contain non-finite values: {strange[:3]}."})
    if model.tokenizer is None:
        problems.append(
            {"part": "tokenizer", "problem": "The folder has no tokenizer, so the model cannot process text."}
        )
    facts = read_facts(find_folder(name)[0])
    if facts.get("task") in registry.names("task"):
        _try(problems, "maskwright.json", lambda: task_of_model(model, facts))
    return {
        "head": model.head_name,
        "labels": list(model.labels),
        "parameters": model.num_parameters,
        "unused_tensors": list(report.unused),
        "tokenizer": _tokenizer(model),
    }


def _tokenizer(model: Model) -> dict[str, Any] | None:
    if model.tokenizer is None:
        return None
    size, rows = model.tokenizer.vocab_size, model.config.vocab_size
    agreement = "matches the embedding matrix" if size == rows else f"{rows - size:,} embedding rows have no token"
    return {"kind": model.tokenizer.kind, "tokens": size, "agreement": agreement}
