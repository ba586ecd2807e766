"""Exports a model: traces it, writes its graph and its settings, and compares the graph with the library."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core import registry, storage
from ..core.errors import InputError, ModelFolderError
from ..core.sealed import FACTS, read_facts
from ..hub.adapters import FACT as ADAPTER
from ..hub.download import find_folder
from ..hub.folders import STORED, complete_facts, description_files, load_model, merged, write_files
from ..hub.sentence import Declared
from ..inference.ready import place, room_of, usual_length
from ..models.model import Model
from .agreement import Agreement, measure, measure_program
from .attention import most_tokens
from .card import export_card
from .config import ExportConfig
from .network import PaddedNetwork, Pooling
from .program import trace
from .specification import specification
from .trial_texts import Trial, drawn_texts, drawn_trials, text_trials

KEY = "export"  # entry of maskwright.json
_TASK_FACTS = ("task", "labels", "head", "estimator", "multi_label", "temperature")


@dataclass(frozen=True)
class Exported:
    """An exported folder. size_bytes: of its graph; agreement: None for a format that is not run."""

    folder: Path
    spec: dict[str, Any]
    size_bytes: int
    agreement: Agreement


def export_model(config: ExportConfig, note: Callable[[str], None] = lambda _: None) -> Exported:
    """Writes the folder `config.output`.

    note: is called with the step that begins.

    Raises:
        ModelFolderError: the model has no graph, or its graph does not agree with the library; nothing is written.
        MissingExtraError: the format needs the extra `export`.
        RunError: the output exists.
    """
    _check_output(config)
    model, facts = _load(config)
    longest = most_tokens(model.config)
    max_length = _max_length(config, model, longest)
    network = PaddedNetwork(model, _pooling(model))
    note("tracing the model")
    program = trace(network, longest)
    with storage.new_folder(config.output, replace=config.replace) as new:
        note(f"writing the graph as {config.to}")
        files = registry.resolve("export_format", config.to).write(program, network, new, config)
        spec = specification(network, config, files, max_length, longest)
        write_files(new, description_files(model, facts, "float32"))
        storage.write_json(new / FACTS, complete_facts(facts | {KEY: spec}))
        note("comparing the graph with the model")
        agreement = _compare(network, new, spec, config)
        spec |= {"agreement": agreement.to_json()}
        size = sum((new / name).stat().st_size for name in files)
        storage.write_json(new / FACTS, complete_facts(facts | {KEY: spec}))
        storage.write_text(new / "README.md", export_card(model, spec, size))
    return Exported(config.output, spec, size, agreement)


def _check_output(config: ExportConfig) -> None:
    """Raises before the model is loaded if the output may not be written."""
    source = Path(config.model)
    if source.is_dir() and config.output.resolve() == source.resolve():
        raise InputError(f"{config.output} is the model itself: choose another output.")
    storage.refuse_existing(config.output, replace=config.replace)


def _load(config: ExportConfig) -> tuple[Model, dict[str, Any]]:
    """The model in float32 on the CPU, with its adapter merged, and the facts of its folder to keep."""
    folder = find_folder(config.model)[0]
    facts = dict(read_facts(folder))
    model, report = load_model(config.model, None if config.head == "none" else STORED)
    report.log_weight_mismatch(config.model)
    if config.head == "stored" and report.new:
        raise InputError(f"{config.model} has no weights for {', '.join(report.new[:3])}: nothing useful is exported.")
    for name in ("format", "version", "versions", "manifest", ADAPTER, *(_TASK_FACTS if config.head == "none" else ())):
        facts.pop(name, None)
    return place(merged(copy.deepcopy(model)), "cpu", "fp32"), facts | {"head": model.head_name}


def _max_length(config: ExportConfig, model: Model, longest: int) -> int:
    """The usual sequence length. Raises InputError beyond what the graph supports."""
    if config.max_length is not None:
        if config.max_length > longest:
            raise InputError(f"max_length is {config.max_length}; the graph of this model supports at most {longest}.")
        return room_of(model, config.max_length)
    declared = None if model.sentence is None else model.sentence.max_length
    return min(declared or usual_length(model), longest)


def _pooling(model: Model) -> Pooling:
    declared = model.sentence or Declared()
    is_possible = not (declared.pooling == "cls" and model.config.pools_last_token)
    return Pooling(declared.pooling if is_possible else "mean", declared.normalize)


def _compare(network: PaddedNetwork, new: Path, spec: Mapping[str, Any], config: ExportConfig) -> Agreement:
    """Raises ModelFolderError, with the figures, if the graph does not agree."""
    trials: list[Trial] = drawn_trials(network, int(spec["longest"]))
    if registry.resolve("export_format", config.to).loading:
        agreement = measure_program(network, new / spec["graphs"]["model"]["file"], spec, trials)
    else:
        if spec["preprocessing"]["tokenizer"] and network.rank == 2:
            trials += text_trials(drawn_texts(network.model, int(spec["max_length"])))
        agreement = measure(network, new, spec, trials)
    shortfalls = agreement.shortfalls()
    if shortfalls:
        raise ModelFolderError(
            f"The exported graph does not agree with the model on {agreement.num_texts} texts: "
            f"{'; '.join(shortfalls)}. Nothing is written."
        )
    return agreement
