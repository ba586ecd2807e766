"""Exports a model: traces it, writes its graph and its settings, and compares the graph with the library."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from ..core import registry, storage
from ..core.config import check
from ..core.errors import InputError, ModelFolderError
from ..core.progress import warn
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
    TorchRuntime,
    check_tokenizer,
    compare,
    drawn_texts,
    drawn_trials,
    limits_of,
    token_trials,
    typical_texts,
)
from .cached import CLM, SEQ2SEQ, Network, networks_of
from .card import export_card, specification
from .config import INT8, ExportConfig
from .network import most_tokens
from .program import trace
from .runtimes import Format, Runtime, format_of, open_runtimes, pad_rows

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
    source = Path(config.model)
    if source.is_dir() and config.output.resolve() == source.resolve():
        raise InputError(f"{config.output} is the model itself: choose another output.")
    storage.refuse_existing(config.output, replace=config.replace)
    form = format_of(config.to)
    known = ("fp32", *form.conversions)
    check(
        config.precision in known,
        f"--to {config.to} has no {config.precision} graph that its runtime computes on a CPU: use --precision "
        f"{' or '.join(known)}.",
    )
    typical = [] if config.calibrate_on is None else _typical_texts(config.calibrate_on)
    model, facts = load_for_export(config.model, config.head)
    longest = most_tokens(model.config)
    networks = networks_of(model, _declared(model))
    if is_generating(model):
        check(
            form.open is not None,
            f"--to {config.to} has no graph with a cache, which text generation needs: use --to onnx, or --head none.",
        )
        check(
            config.precision != INT8 or form.quantization["activations"] != "static",
            f"--to {config.to} has no int8 graph for text generation: use --to onnx, or --precision fp32.",
        )
    job = _Export(config, form, networks, facts, _max_length(config, model, longest), longest, typical, note)
    with storage.new_folder(config.output, replace=config.replace) as new:
        write_files(new, description_files(model, facts, "float32"))
        spec, agreement = job.written(new)
        if shortfalls := agreement.shortfalls(limits_of(config)):
            raise ModelFolderError(
                f"The exported graph does not agree with the model on {agreement.num_texts} texts: "
                f"{'; '.join(shortfalls)}. Nothing is written."
            )
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
    note: Callable[[str], None]

    def written(self, new: Path) -> tuple[dict[str, Any], Agreement]:
        """Writes the graphs into `new`, describes and compares them: the first attempt that agrees, else the last."""
        if self.config.precision == "fp32":
            return self._compared(new, self._traced(new), ())
        with TemporaryDirectory(prefix=".float32-", dir=new) as folder:
            base = Path(folder)
            files = self._traced(base)
            full = _size(base, files)
            samples = [] if is_generating(self.networks[0].model) else self._samples(files)
            for left_out in LEFT_OUT if self.config.precision == INT8 else ((),):
                without = f", except {', '.join(left_out)}" if left_out else ""
                self.note(f"converting the graph to {self.config.precision}{without}")
                convert = self.form.conversions[self.config.precision]
                made = {name: convert(base, own, new, samples, left_out) for name, own in files.items()}
                spec, agreement = self._compared(new, made, left_out)
                if not agreement.shortfalls(limits_of(self.config)):
                    break
        return spec | {"float32_size_bytes": full}, agreement

    def _traced(self, folder: Path) -> dict[str, list[str]]:
        """Writes the float32 graphs into `folder`: the files of each."""
        found = {}
        for network in self.networks:
            self.note(f"tracing {network.name}")
            program = trace(network, self.longest)
            self.note(f"writing {network.name} as {self.config.to}")
            found[network.name] = self.form.write(program, network, folder, self.config.opset)
        return found

    def _samples(self, files: Mapping[str, list[str]]) -> list[dict[str, Any]]:
        """The inputs that a graph is calibrated on, one by one: padding would widen the ranges."""
        plan = specification(self.networks, self.config, files, self.max_length, self.longest)
        texts = typical_texts([text for index, text in enumerate(self.typical) if index % HELD_OUT != HELD_OUT - 1])
        trials = token_trials(self.networks[0], texts, self.max_length, (1,)) if texts else []
        return [pad_rows(plan, rows) for rows in trials]

    def _compared(
        self, new: Path, files: Mapping[str, list[str]], left_out: Sequence[str]
    ) -> tuple[dict[str, Any], Agreement]:
        """Describes graphs that were written into `new`, and compares them with the model."""
        spec = specification(self.networks, self.config, files, self.max_length, self.longest, left_out)
        self.note("comparing the graph with the model")
        network = self.networks[0]
        has_file = bool(spec["preprocessing"]["tokenizer"]) and not is_generating(network.model)
        if self.typical:  # quantized for such texts, not for drawn tokens
            texts = typical_texts([text for index, text in enumerate(self.typical) if index % HELD_OUT == HELD_OUT - 1])
            trials = token_trials(network, texts, self.max_length)
        else:
            texts = list[Text](drawn_texts(network.model, self.max_length)) if has_file else []
            trials = drawn_trials(network, self.longest)
            trials += token_trials(network, texts, self.max_length) if texts else []
        if has_file:
            check_tokenizer(network.model, new, spec, texts)
        runtimes: dict[str, Runtime]
        if self.form.open is None:
            module = torch.export.load(new / files[network.name][0]).module()  # of the file that was just written
            runtimes = {network.name: TorchRuntime(network, module)}
        else:
            runtimes = open_runtimes(new, spec, torch.get_num_threads())
        agreement = compare(self.networks, runtimes, spec, trials)
        return spec | {"size_bytes": _size(new, files), "agreement": agreement.to_json()}, agreement


def is_generating(model: Model) -> bool:
    """Whether the graphs of a model generate text, with a cache."""
    return model.head_name in (CLM, SEQ2SEQ)


def _size(folder: Path, files: Mapping[str, Sequence[str]]) -> int:
    return sum((folder / name).stat().st_size for own in files.values() for name in own)


def _typical_texts(path: Path) -> list[Text]:
    """The first texts of a file. Raises InputError for too few."""
    reader = find_reader(path, {}) or registry.resolve("reader", "texts")
    found = reader.read(path, {}, False, False)
    texts = [content_of(row) for row in islice(getattr(found, "rows", found), MOST_TEXTS)]
    if len(texts) < MIN_TEXTS:
        raise InputError(f"{path} has {len(texts)} texts; int8 is calibrated and compared on at least {MIN_TEXTS}.")
    return texts


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
    if declared.prompt and not declared.include_prompt:
        raise InputError("This model leaves the tokens of its prompt out of the pooling, which has no graph.")
    if declared.late is not None or model.routes:
        raise InputError(
            "A model with a vector for each token, or with a network for queries of its own, has no graph."
        )
    if declared.sparse is not None:
        warn("The graph gives the logits of the vocabulary; sparse embeddings are made of them by the caller.")
    is_possible = not (declared.pooling == "cls" and model.config.pools_last_token)
    return declared if is_possible else replace(declared, pooling="mean")
