"""What a model folder holds, whether its parts belong together, and what loading it would say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from ..core import storage
from ..core.errors import MaskwrightError
from ..hub.config_file import read_config
from ..hub.download import find_folder
from ..hub.folders import load_model, read_facts, verify
from ..hub.sentence import network_folder
from ..models.model import Model
from ..tasks import task_of_model

Problem = dict[str, str]


def examine_model(name: str | Path) -> dict[str, Any]:
    """Facts of a folder, or of a model of the hub, and its problems, each as what was looked at and a sentence.

    Raises MissingFileError where there is no such folder; whatever else is wrong is a problem in the answer.
    """
    folder, _ = find_folder(name)
    problems: list[Problem] = []
    facts: dict[str, Any] = {"folder": str(folder), "files": _files(folder), "problems": problems}
    _try(problems, "manifest", lambda: facts.update(manifest=_manifest(folder)))
    _try(problems, "config.json", lambda: facts.update(_config(folder)))
    _try(problems, "maskwright.json", lambda: facts.update(_own(folder)))
    _try(problems, "weights and tokenizer", lambda: facts.update(_loaded(name, problems)))
    return facts


def _try(problems: list[Problem], part: str, look: Any) -> None:
    """Look at a part; what it raises is a problem, told once."""
    try:
        look()
    except MaskwrightError as error:
        if str(error) not in [known["problem"] for known in problems]:
            problems.append({"part": part, "problem": str(error)})


def _files(folder: Path) -> list[dict[str, Any]]:
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return [
        {"file": path.relative_to(folder).as_posix(), "bytes": path.stat().st_size, "sha256": storage.sha256(path)}
        for path in found
    ]


def _manifest(folder: Path) -> str:
    verify(folder)
    return "every file is as it was written" if (folder / storage.MANIFEST).is_file() else "none"


def _config(folder: Path) -> dict[str, Any]:
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


def _own(folder: Path) -> dict[str, Any]:
    facts = read_facts(folder)
    temperature = facts.get("temperature")
    return {
        "task": facts.get("task"),
        "max_length": facts.get("max_length"),
        "temperature": temperature.get("value") if isinstance(temperature, dict) else None,
    }


def _loaded(name: str | Path, problems: list[Problem]) -> dict[str, Any]:
    model, report = load_model(name)
    if report.new:
        problems.append(
            {"part": "weights", "problem": f"The folder lacks {len(report.new)} tensors: {report.new[:3]}."}
        )
    strange = [key for key, value in model.named_parameters() if not bool(torch.isfinite(value).all())]
    if strange:
        problems.append({"part": "weights", "problem": f"These hold numbers that are not finite: {strange[:3]}."})
    if model.tokenizer is None:
        problems.append({"part": "tokenizer", "problem": "The folder has no tokenizer: texts cannot be given to it."})
    if read_facts(find_folder(name)[0]).get("task"):
        _try(problems, "maskwright.json", lambda: task_of_model(model, read_facts(find_folder(name)[0])))
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
    agreement = "as many as the embeddings" if size == rows else f"{rows - size:,} embeddings have no token"
    return {"kind": model.tokenizer.kind, "tokens": size, "agreement": agreement}
