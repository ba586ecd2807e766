"""Export models in every format and precision, and write agreement and sizes to docs/results/export.md.

python benchmarks/exported.py

Needs the extra `export`, and the corpora under MASKWRIGHT_DATA.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from importlib import metadata
from pathlib import Path

import torch

from maskwright.core import registry
from maskwright.core.errors import ConfigError, MaskwrightError
from maskwright.core.storage import write_text
from maskwright.export.agreement import Agreement, Trial, drawn_trials, limits_of, measure_runtimes
from maskwright.export.cached import Network, networks_of
from maskwright.export.card import specification
from maskwright.export.config import INT8, ExportConfig
from maskwright.export.export import LEFT_OUT, export_model, is_generating
from maskwright.export.format import Format
from maskwright.export.network import most_tokens
from maskwright.export.onnx_file import write_onnx
from maskwright.export.openvino_file import from_onnx
from maskwright.export.program import trace
from maskwright.export.runtimes import open_runtime, pad_rows

REPOSITORY = Path(__file__).parents[1]
PAGE = REPOSITORY / "docs" / "results" / "export.md"
sys.path[:0] = [str(REPOSITORY / "tests"), str(REPOSITORY / "benchmarks" / "speed")]

from cpu import cpu_name  # noqa: E402

from export.small_models import ENCODERS, small, small_translator  # noqa: E402
from minilm import minilm_folder  # noqa: E402

# Trained models: what is exported of each, and typical texts of its task.
MODELS = (
    ("minilm", "none", "sst2/train.tsv"),
    ("english-names", "stored", "conll2003/train.conll.xz"),
)
FAMILIES = [name for name in ENCODERS if name != "xlm-roberta-base"]  # whose network is that of RoBERTa
HEADS = (None, "mlm", "classification", "regression", "tagging", "qa", "choice")  # of BERT
FEW_HEADS = (None, "classification")  # of the other families, whose heads are the same modules
GENERATING = (("gpt2", "clm"), ("transformer-mini", "seq2seq"), ("bart-base", "seq2seq"))
COLUMNS = (
    *(("onnx", precision) for precision in ("fp32", "fp16", "int8")),
    *(("openvino", precision) for precision in ("fp32", "fp16", "bf16", "int8")),
)
SIZES = {"hidden_size": 64, "intermediate_size": 256, "num_hidden_layers": 2, "initializer_range": 0.08}
PACKAGES = ("torch", "onnx", "onnxruntime", "openvino", "nncf")

PAGE_TEXT = """# Exported graphs, measured

Written by `python benchmarks/exported.py` in {minutes:.0f} minutes ({packages}; {machine}, {threads}, load average
{load:.1f}). Agreement is the smallest cosine of a sentence embedding, the correlation of a single number, or the
fraction of equal highest-scoring classes (of tokens for `mlm` and `tagging`, of positions for `qa`); for fp32 the
largest difference, as a fraction of the largest number. "Not written" is an export that ended with exit code 2, because
the agreement was below its limit.

## Trained models

Every row is one `maskwright export`; the figures are those of its comparison with the library, in a process without
torch. fp32, fp16 and bf16: texts of drawn tokens, 1 to 128 tokens and the longest. int8: compared on 64 texts of the
corpus, each as it is and cut to 1, 2, 3 or 5 words or joined to 32, 64 or 128 words; the OpenVINO model is calibrated
on 192 other texts of it, the ONNX graph scales its activations as it runs.

| model | head | texts | format | precision | agreement | size | note |
| --- | --- | --- | --- | --- | --- | --- | --- |
{rows}

How many products stay in float32 was chosen on the dev split of the same corpus for MiniLM, so other models may do
worse.

## Families, heads, formats and precisions

Networks of 2 layers of 64 with random weights (seed 3), on 72 texts of drawn tokens. They show that each graph is
written, quantized and run, and that the comparison evaluates it. Random weights have small margins between classes, so
equal classes are fewer than in trained models. The heads of the other families are the same modules as those of BERT;
every family with every head is compared in float32, and with rounded and wrong weights, in `tests/export`. Cells:
agreement, in parentheses the size in kB. **Bold** is below the limit, so `maskwright export` would write nothing; –
does not exist. For int8, products are left in float32 as in `maskwright export`, until it passes.

| family | head | {columns} |
| --- | --- | {lines} |
{matrix}

{passed} of {count} pass.

How to export: [Export a model as a graph](../how-to/export.md).
"""


def main() -> None:
    """Measure and write the page."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        rows = list(rows_of(Path(folder)))
        wanted = [(name, head) for name in FAMILIES for head in (HEADS if name == "bert-tiny" else FEW_HEADS)]
        wanted += GENERATING
        cells = {(name, head): cells_of(Path(folder), name, head) for name, head in wanted}
    made = {key: one for key, one in cells.items() if one}
    all_cells = [cell for one in made.values() for cell in one]
    text = PAGE_TEXT.format(
        minutes=(time.monotonic() - start) / 60,
        packages=", ".join(f"{name} {metadata.version(name)}" for name in PACKAGES),
        machine=f"{cpu_name()}, {os.cpu_count()} cores",
        load=os.getloadavg()[2],  # of the last 15 minutes
        threads=f"OMP_NUM_THREADS={os.environ.get('OMP_NUM_THREADS', 'unset')}",
        rows="\n".join(rows),
        columns=" | ".join(f"{to} {precision}" for to, precision in COLUMNS),
        lines=" | ".join("---" for _ in COLUMNS),
        matrix="\n".join(f"| {name} | {head or 'none'} | {' | '.join(one)} |" for (name, head), one in made.items()),
        passed=sum("**" not in cell for cell in all_cells),
        count=len(all_cells),
    )
    write_text(PAGE, text)
    print(f"Wrote {PAGE}: {len(rows)} rows and {len(all_cells)} cells.")


# -- trained models ----------------------------------------------------------------------------------------------------


def rows_of(folder: Path) -> Iterator[str]:
    """A line for each model, format and precision."""
    data = Path(os.environ["MASKWRIGHT_DATA"])
    for name, head, texts in MODELS:
        source = str(minilm_folder()) if name == "minilm" else name
        for to, precision in COLUMNS:
            typical = {"calibrate_on": data / texts} if precision == INT8 else {}
            config = ExportConfig(
                model=source, output=folder / "out", to=to, head=head, precision=precision, replace=True, **typical
            )
            on = texts.split("/")[0] if typical else "drawn"
            found_head, found = outcome(config)
            yield f"| {name} | {found_head} | {on} | {to} | {precision} | {found} |"


def outcome(config: ExportConfig) -> tuple[str, str]:
    """The head; agreement, size and note of one export."""
    try:
        found = export_model(config)
    except MaskwrightError as error:
        figures = str(error).split(" texts: ")[-1].removesuffix(". Nothing is written.")
        return "", f"{figures} | | not written"
    left_out = found.spec.get("quantization", {}).get("products_in_float32")
    note = f"`{'`, `'.join(left_out)}` in float32" if left_out else ""
    figure = figure_of(found.agreement, config.precision)
    print(config.model, config.to, config.precision, figure, file=sys.stderr)
    return found.spec["head"] or "none", f"{figure} | {found.spec['size_bytes'] / 1e6:.1f} MB | {note}"


def figure_of(agreement: Agreement, precision: str) -> str:
    """The figure that decides."""
    outputs = agreement.outputs
    if precision == "fp32":
        return f"differs by {max(one.largest_difference for one in outputs.values()):.0e}"
    main = outputs.get("sentence_embedding") or next(iter(outputs.values()))
    if main.same_class is not None:
        return f"{min(one.same_class or 1.0 for one in outputs.values()):.1%}"
    return f"{main.min_cosine if main.correlation is None else main.correlation:.4f}"


# -- every family and head ---------------------------------------------------------------------------------------------


def cells_of(folder: Path, name: str, head: str | None) -> list[str]:
    """Agreement and size for every format and precision; empty if the family does not have the head."""
    try:
        make = small_translator if head == "seq2seq" else partial(small, head=head)
        model = make(name, **(SIZES if name != "bag-small" else {}))
    except ConfigError:
        return []
    networks, longest = networks_of(model), most_tokens(model.config)
    programs, trials = [trace(network, longest) for network in networks], drawn_trials(networks[0], longest)
    found: dict[tuple[str, str], str] = {}
    for to in ("onnx", "openvino"):
        with tempfile.TemporaryDirectory(dir=folder) as base:
            config = ExportConfig(model=name, output=folder / "cell", to=to)
            if to == "onnx":
                pairs = zip(networks, programs, strict=True)
                files = {network.name: write_onnx(program, network, Path(base), config) for network, program in pairs}
                shutil.copytree(base, folder / "float32")
            else:  # from the same graph, instead of tracing it again
                shutil.move(folder / "float32" / "onnx", base)
                (folder / "float32").rmdir()
                files = {graph: from_onnx(Path(base), own) for graph, own in files.items()}
            found[to, "fp32"] = measured(config, networks, trials, Path(base), files)
            # bf16 moves the files of fp32, so it is the last.
            for precision in sorted(registry.resolve("export_format", to).conversions, reverse=True):
                found[to, precision] = converted(config, precision, networks, trials, Path(base), files)
    cells = [found[column] for column in COLUMNS]
    print(name, head, cells, file=sys.stderr)
    return cells


def converted(
    config: ExportConfig,
    precision: str,
    networks: list[Network],
    trials: list[Trial],
    base: Path,
    files: Mapping[str, list[str]],
) -> str:
    """A cell of another precision than float32."""
    typical = {"calibrate_on": Path("texts")} if precision == INT8 else {}
    config = replace(config, precision=precision, **typical)
    form: Format = registry.resolve("export_format", config.to)
    conversion, samples, cell = form.conversions[precision], [], ""
    if conversion.facts.get("activations") == "static":
        if is_generating(networks[0].model):
            return "–"
        plan = specification(networks, config, files, 1, 1)
        samples = [trial.shaped(pad_rows(plan, trial.ids, trial.types)) for trial in trials]
    for left_out in LEFT_OUT if precision == INT8 else ((),):
        new = base / f"{precision}-{len(left_out)}"
        new.mkdir()
        written = {graph: conversion.write(base, own, new, samples, left_out) for graph, own in files.items()}
        cell = measured(config, networks, trials, new, written, left_out)
        if "**" not in cell:
            break
    return cell


def measured(
    config: ExportConfig,
    networks: list[Network],
    trials: list[Trial],
    folder: Path,
    files: Mapping[str, list[str]],
    left_out: tuple[str, ...] = (),
) -> str:
    """Agreement and size of a graph."""
    longest = most_tokens(networks[0].model.config)
    spec = specification(networks, config, files, longest, longest, left_out)
    runtimes = {graph: open_runtime(folder, spec, 1, graph) for graph in files}
    agreement = measure_runtimes(networks, runtimes, spec, trials)
    size = sum((folder / file).stat().st_size for own in files.values() for file in own) / 1e3
    figure = figure_of(agreement, config.precision).removeprefix("differs by ")
    return f"**{figure}** ({size:.0f})" if agreement.shortfalls(limits_of(config)) else f"{figure} ({size:.0f})"


if __name__ == "__main__":
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))
    main()
