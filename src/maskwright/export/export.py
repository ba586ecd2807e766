"""Exports a model: traces it, writes its graph and its settings, and compares the graph with the library."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ..core import registry, storage
from ..core.config import check
from ..core.errors import ConfigError, InputError, ModelFolderError
from ..core.storage import EXPORTED, FACTS, read_facts
from ..hub.adapters import FACT as ADAPTER
from ..hub.download import find_folder
from ..hub.folders import STORED, complete_facts, description_files, load_model, merged, write_files
from ..inference.ready import place, room_of, usual_length
from ..models.model import Model, SentenceSettings
from ..tasks.examples import content_of
from ..text.readers.inputs import Text
from ..text.readers.tables import find_reader
from .agreement import (
    Agreement,
    Trial,
    drawn_texts,
    drawn_trials,
    limits_of,
    measure,
    measure_program,
    text_trials,
    token_trials,
    typical_texts,
)
from .cached import CLM, SEQ2SEQ, Network, networks_of
from .card import export_card, specification
from .config import INT8, ExportConfig
from .format import Format
from .network import PaddedNetwork, most_tokens
from .program import trace
from .runtimes import pad_rows

MIN_TEXTS, MOST_TEXTS = 64, 256  # typical texts for int8
HELD_OUT = 4  # every fourth of them is for the comparison only
# Products that int8 leaves out, in the order of the attempts: activations of the second feed-forward product have
# outliers, which need most of the range of a tensor.
LEFT_OUT: tuple[tuple[str, ...], ...] = ((), ("ffn.down",), ("ffn.down", "ffn.up"))
_TASK_FACTS = ("task", "labels", "head", "estimator", "multi_label", "temperature")


@dataclass(frozen=True)
class Exported:
    """An exported folder. spec: the entry "export" of its maskwright.json; agreement: of its graph with the model."""

    folder: Path
    spec: dict[str, Any]
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
    form: Format = registry.resolve("export_format", config.to)
    _check_precision(config, form)
    typical = None if config.calibrate_on is None else _typical_texts(config.calibrate_on)
    model, facts = load_for_export(config.model, config.head)
    longest = most_tokens(model.config)
    networks = networks_of(model, _declared(model))
    _check_generating(config, form, model)
    job = _Export(config, form, networks, facts, _max_length(config, model, longest), longest, typical or [])
    with storage.new_folder(config.output, replace=config.replace) as new:
        write_files(new, description_files(model, facts, "float32"))
        if config.precision == "fp32":
            spec, agreement = job.compared(new, job.written(new, note), (), note)
        else:
            with TemporaryDirectory(prefix=".float32-", dir=new) as base:
                spec, agreement = job.converted(Path(base), job.written(Path(base), note), new, note)
        job.check(agreement)
        storage.write_json(new / FACTS, complete_facts(facts | {EXPORTED: spec}))
        storage.write_text(new / "README.md", export_card(model, spec))
    return Exported(config.output, spec, agreement)


@dataclass(frozen=True)
class _Export:
    """What the steps of an export share. typical: texts to calibrate on and to compare with, for int8."""

    config: ExportConfig
    form: Format
    networks: Sequence[Network]
    facts: dict[str, Any]
    max_length: int
    longest: int
    typical: Sequence[Text]

    def written(self, folder: Path, note: Callable[[str], None]) -> dict[str, list[str]]:
        """Writes the float32 graphs into `folder`: the files of each."""
        found = {}
        for network in self.networks:
            note(f"tracing {network.name}")
            program = trace(network, self.longest)
            note(f"writing {network.name} as {self.config.to}")
            found[network.name] = self.form.write(program, network, folder, self.config)
        return found

    def compared(
        self, new: Path, files: Mapping[str, list[str]], left_out: Sequence[str], note: Callable[[str], None]
    ) -> tuple[dict[str, Any], Agreement]:
        """Describes graphs that were written into `new`, and compares them with the model."""
        spec = specification(self.networks, self.config, files, self.max_length, self.longest, left_out)
        storage.write_json(new / FACTS, complete_facts(self.facts | {EXPORTED: spec}))
        note("comparing the graph with the model")
        trials = self._trials(spec)
        if self.form.loading:
            (network,) = self.networks
            agreement = measure_program(network, new / files[network.name][0], spec, trials)
        else:
            agreement = measure(self.networks, new, spec, trials)
        return spec | {"size_bytes": _size(new, files), "agreement": agreement.to_json()}, agreement

    def converted(
        self, base: Path, files: Mapping[str, list[str]], new: Path, note: Callable[[str], None]
    ) -> tuple[dict[str, Any], Agreement]:
        """Writes the graphs of `base` in another precision into `new`: the first attempt that passes, else the last."""
        chosen = typical_texts([text for index, text in enumerate(self.typical) if index % HELD_OUT != HELD_OUT - 1])
        samples = [] if is_generating(self.networks[0].model) else self._samples(chosen, files)
        full = _size(base, files)
        for left_out in LEFT_OUT if self.config.precision == INT8 else ((),):
            without = f", except {', '.join(left_out)}" if left_out else ""
            note(f"converting the graph to {self.config.precision}{without}")
            write = self.form.conversions[self.config.precision].write
            written = {name: write(base, own, new, samples, left_out) for name, own in files.items()}
            spec, agreement = self.compared(new, written, left_out, note)
            if not agreement.shortfalls(limits_of(self.config)):
                break
        return spec | {"float32_size_bytes": full}, agreement

    def _samples(self, texts: Sequence[Text], files: Mapping[str, list[str]]) -> list[dict[str, np.ndarray]]:
        """The inputs that a graph is calibrated on, one by one: padding would widen the ranges."""
        plan = specification(self.networks, self.config, files, self.max_length, self.longest)
        trials = token_trials(self.networks[0], texts, self.max_length, (1,)) if texts else []
        return [trial.shaped(pad_rows(plan, trial.ids, trial.types)) for trial in trials]

    def check(self, agreement: Agreement) -> None:
        """Raises ModelFolderError, with the figures, if the graph does not agree."""
        shortfalls = agreement.shortfalls(limits_of(self.config))
        if shortfalls:
            raise ModelFolderError(
                f"The exported graph does not agree with the model on {agreement.num_texts} texts: "
                f"{'; '.join(shortfalls)}. Nothing is written."
            )

    def _trials(self, spec: Mapping[str, Any]) -> list[Trial]:
        network = self.networks[0]
        is_flat = isinstance(network, PaddedNetwork) and network.rank == 2 and not is_generating(network.model)
        by_text = bool(spec["preprocessing"]["tokenizer"]) and is_flat and not self.form.loading
        if self.typical:  # quantized for such texts, not for drawn tokens
            texts = typical_texts([text for index, text in enumerate(self.typical) if index % HELD_OUT == HELD_OUT - 1])
            return text_trials(texts) if by_text else token_trials(network, texts, self.max_length)
        trials = drawn_trials(network, self.longest)
        return trials + text_trials(drawn_texts(network.model, self.max_length)) if by_text else trials


def is_generating(model: Model) -> bool:
    """Whether the graphs of a model generate text, with a cache."""
    return model.head_name in (CLM, SEQ2SEQ)


def _size(folder: Path, files: Mapping[str, Sequence[str]]) -> int:
    return sum((folder / name).stat().st_size for own in files.values() for name in own)


def _check_generating(config: ExportConfig, form: Format, model: Model) -> None:
    """Raises ConfigError for what is not possible with graphs that generate text."""
    if not is_generating(model):
        return
    check(
        not form.loading,
        f"--to {config.to} has no graph with a cache, which text generation needs: use --to onnx, or --head none.",
    )
    conversion = form.conversions.get(config.precision)
    check(
        conversion is None or conversion.facts.get("activations") != "static",
        f"--to {config.to} has no int8 graph for text generation: use --to onnx, or --precision fp32.",
    )


def _check_precision(config: ExportConfig, form: Format) -> None:
    """Raises ConfigError for a precision that a format does not have."""
    known = ("fp32", *form.conversions)
    if config.precision not in known:
        raise ConfigError(
            f"--to {config.to} has no {config.precision} graph that its runtime computes on a CPU: use --precision "
            f"{' or '.join(known)}."
        )


def _typical_texts(path: Path) -> list[Text]:
    """The first texts of a file. Raises InputError for too few."""
    reader = find_reader(path, {}) or registry.resolve("reader", "texts")
    found = reader.read(path, {}, False)
    texts = [content_of(row) for row in islice(getattr(found, "rows", found), MOST_TEXTS)]
    if len(texts) < MIN_TEXTS:
        raise InputError(f"{path} has {len(texts)} texts; int8 is calibrated and compared on at least {MIN_TEXTS}.")
    return texts


def _check_output(config: ExportConfig) -> None:
    """Raises before the model is loaded if the output may not be written."""
    source = Path(config.model)
    if source.is_dir() and config.output.resolve() == source.resolve():
        raise InputError(f"{config.output} is the model itself: choose another output.")
    storage.refuse_existing(config.output, replace=config.replace)


def load_for_export(name: str, head: str = "stored") -> tuple[Model, dict[str, Any]]:
    """The model in float32 on the CPU, with its adapter merged, and the facts of its folder to keep.

    head: "stored" or "none". Raises InputError for an exported graph, and for a head without weights.
    """
    folder = find_folder(name)[0]
    facts = dict(read_facts(folder))
    model, report = load_model(name, None if head == "none" else STORED)
    report.log_weight_mismatch(name)
    if model.graph_precision is not None:
        raise InputError(f"{name} is an exported graph already: export the model that it was exported from.")
    if head == "stored" and report.new:
        raise InputError(f"{name} has no weights for {', '.join(report.new[:3])}: nothing useful is exported.")
    for entry in ("format", "version", "versions", "manifest", ADAPTER, *(_TASK_FACTS if head == "none" else ())):
        facts.pop(entry, None)
    return place(merged(copy.deepcopy(model)), "cpu", "fp32"), facts | {"head": model.head_name}


def _max_length(config: ExportConfig, model: Model, longest: int) -> int:
    """The usual sequence length. Raises InputError beyond what the graph supports."""
    if config.max_length is not None:
        if config.max_length > longest:
            raise InputError(f"max_length is {config.max_length}; the graph of this model supports at most {longest}.")
        return room_of(model, config.max_length)
    declared = None if model.sentence is None else model.sentence.max_length
    return min(declared or usual_length(model), longest)


def _declared(model: Model) -> SentenceSettings:
    declared = model.sentence or SentenceSettings()
    is_possible = not (declared.pooling == "cls" and model.config.pools_last_token)
    return declared if is_possible else replace(declared, pooling="mean")
