"""Executors: which program computes a model. `own` is the engine of maskwright; the others run a graph of the model.

A graph is exported once, compared with the model as any export is, and kept in a cache folder whose name is the hash of
the weights, the settings of the model and the versions. `own` is the default: the first export of a model takes longer
than thousands of short texts save. `auto` exports once for every installed runtime, measures one short text with each,
and remembers the result in the same cache.
"""

from __future__ import annotations

import hashlib
import json
import statistics
import time
from collections.abc import Iterator, Mapping
from importlib import metadata, util
from pathlib import Path
from typing import Any, Literal, cast

import torch

from ..core import storage
from ..core.config import check
from ..core.errors import MaskwrightError, MissingExtraError, ModelFolderError
from ..core.progress import note
from ..core.util import AUTO, OWN, cache_folder, plural
from ..data.batch import Batch
from ..hub.folders import description_files, load_model
from ..inference.engine.choice import choose_layers
from ..inference.ready import place
from ..models.device import resolve_precision
from ..models.model import Model
from .config import INT8, ExportConfig
from .export import export_model, load_for_export
from .runtimes import format_of

FORMATS = {"openvino": "openvino", "onnxruntime": "onnx"}  # export format of each executor
GRAPHS = "graphs"  # the part of the cache that has exported graphs
MEASURED = "measured.json"
TOKENS, WARMUP, RUNS = 32, 5, 30  # of the text that is measured
FASTER = 0.95  # fraction of the time of `own` below which a graph is used

Head = Literal["stored", "none"]


def executed(
    model: str | Path, executor: str, precision: str, device: str = "auto", head: Head = "stored"
) -> tuple[str, str]:
    """What to open, and in which precision, for `executor` to compute a model: the folder of its graph, exported if it
    is not cached.

    executor: not `own`, which opens the model itself; head: "stored" for the model's own, or "none" for hidden states.

    Raises ConfigError for a device or precision that the executor does not have, MissingExtraError without its package,
    and what `export_model` raises for a model that has no graph.
    """
    check(device in ("auto", "cpu"), f"--executor {executor} computes on the CPU: remove --device {device}.")
    check(
        precision != INT8,
        f"--executor {executor} has no int8 of its own: write a folder with maskwright export --precision int8 "
        "--calibrate-on FILE, and use it as the model.",
    )
    if executor == AUTO:
        executor = fastest(_measured(model, precision, head))
    return (str(model), precision) if executor == OWN else (_graph(model, executor, precision, head), AUTO)


def fastest(milliseconds: Mapping[str, float]) -> str:
    """The executor that `auto` takes: the fastest graph, if it is faster than `own` by more than the noise of a run."""
    best = min(milliseconds, key=lambda name: milliseconds[name])
    return best if milliseconds[best] < FASTER * milliseconds[OWN] else OWN


def installed() -> list[str]:
    """The executors whose packages are installed, besides `own`."""
    return [name for name in FORMATS if all(util.find_spec(package) for package in (name, "onnxscript"))]


def measurements() -> Iterator[dict[str, Any]]:
    """What `auto` has measured on this machine, of each model: model, precision and milliseconds by executor."""
    for path in sorted(cache_folder(GRAPHS).glob(f"*/{MEASURED}")):
        if found := _read(path):
            yield found


def _read(path: Path) -> dict[str, Any]:
    """What was measured; {} if it is missing or damaged, and is measured again when it is needed."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return found | {"milliseconds": {name: float(value) for name, value in found["milliseconds"].items()}}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _graph(model: str | Path, executor: str, precision: str, head: Head) -> str:
    """The folder of a graph, exported if it is missing or changed."""
    form = format_of(FORMATS[executor])
    if util.find_spec(executor) is None:
        raise MissingExtraError(f"--executor {executor}", "export")
    known = ("fp32", *(name for name in form.conversions if name != INT8))
    if precision == AUTO:
        precision = resolve_precision(AUTO, torch.device("cpu"))
        precision = precision if precision in known else "fp32"
    check(
        precision in known,
        f"--executor {executor} does not compute in {precision}: use --precision {' or '.join(known)}.",
    )
    folder = cache_folder(GRAPHS) / _key(
        model, head, executor, precision, *(metadata.version(one) for one in form.packages)
    )
    try:
        is_usable = folder.is_dir() and storage.verify_sealed(folder)
    except MaskwrightError:
        is_usable = False
    if not is_usable:
        note(f"exporting {model} for {executor} in {precision}, once: {folder}")
        export_model(
            ExportConfig(
                model=str(model),
                output=folder,
                to=FORMATS[executor],
                precision=cast(Any, precision),
                head=head,
                replace=True,
            )
        )
    return str(folder)


def _key(model: str | Path, head: Head, *settings: str) -> str:
    """The hash of the weights and settings of a model, and of what its graph depends on."""
    network, facts = load_for_export(str(model), head)
    found = hashlib.sha256("\n".join([metadata.version("maskwright"), torch.__version__, head, *settings]).encode())
    for name, content in sorted(description_files(network, facts, "float32").items()):
        data = content if isinstance(content, bytes) else json.dumps(content, sort_keys=True).encode()
        found.update(name.encode() + data)
    for name, parameter in network.named_parameters():
        found.update(name.encode())
        found.update(parameter.detach().numpy().tobytes())
    return found.hexdigest()[:32]


def _measured(model: str | Path, precision: str, head: Head) -> Mapping[str, float]:
    """Milliseconds of a short text with each executor, from the cache or measured now."""
    names = installed()
    versions = [metadata.version(name) for name in names]
    threads, cpu = torch.get_num_threads(), torch.device("cpu")
    layers = choose_layers(resolve_precision(precision, cpu), cpu).products  # a compiler may come later
    path = cache_folder(GRAPHS) / _key(model, head, AUTO, precision, str(threads), layers, *names, *versions) / MEASURED
    if before := _read(path):
        return cast(dict[str, float], before["milliseconds"])
    found = {OWN: _time(place(load_model(str(model))[0], "cpu", precision))}
    for name in names:
        try:
            found[name] = _time(load_model(_graph(model, name, precision, head))[0])
        except ModelFolderError as error:  # no graph, or one that does not agree
            note(f"{name} is not used: {error}")
    path.parent.mkdir(parents=True, exist_ok=True)
    facts = {"model": str(model), "precision": precision, "threads": threads, "milliseconds": found}
    storage.write_json(path, facts)
    note(f"a text of {plural(TOKENS, 'token')}: {', '.join(f'{name} {one:.2f} ms' for name, one in found.items())}")
    return found


def _time(model: Model) -> float:
    """The median time of one short text through the network, in milliseconds."""
    length = min(TOKENS, model.config.max_position_embeddings)
    batch = Batch.from_sequences([[index % model.config.vocab_size for index in range(length)]])
    times = []
    with torch.inference_mode():
        for number in range(WARMUP + RUNS):
            start = time.perf_counter()
            model.one_pass(batch)
            if number >= WARMUP:
                times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)
