"""Export models in every format and precision, and write agreement and sizes to docs/results/export.md.

python benchmarks/exported.py

Needs the extra `export`, and the corpora under MASKWRIGHT_DATA.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import torch

from maskwright.core import registry
from maskwright.core.errors import MaskwrightError
from maskwright.core.storage import write_text
from maskwright.export.config import ExportConfig
from maskwright.export.export import Exported, export_model

REPOSITORY = Path(__file__).parents[1]
PAGE = REPOSITORY / "docs" / "results" / "export.md"
sys.path[:0] = [str(REPOSITORY / "tests"), str(REPOSITORY / "benchmarks" / "speed")]

from cpu import cpu_name  # noqa: E402

from minilm import minilm_folder  # noqa: E402

# Model, what is exported of it, and typical texts of its task.
MODELS = (("minilm", "none", "sst2/train.tsv"),)
PACKAGES = ("torch", "onnx", "onnxruntime", "openvino", "nncf")

PAGE_TEXT = """# Exported graphs, measured

Written by `python benchmarks/exported.py` ({packages}; {machine}, {threads}).
Every row is one `maskwright export`; the figures are those of its comparison with the library, in a process
without torch.

fp32, fp16 and bf16: texts of drawn tokens, 1 to 128 tokens and the longest. int8: compared on 64 texts of the corpus,
each as it is and cut to 1, 2, 3 or 5 words or joined to 32, 64 or 128 words; the OpenVINO model is calibrated on 192
other texts of it, the ONNX graph scales its activations as it runs. Agreement
is the smallest cosine of a sentence embedding, or the fraction of equal highest-scoring classes (of tokens for `mlm`
and `tagging`).

| model | head | texts | format | precision | agreement | size | note |
| --- | --- | --- | --- | --- | --- | --- | --- |
{rows}

How many products stay in float32 was chosen on the dev split of the same corpus for this model, so other models may do
worse.

"Not written" is an export that ended with exit code 2, because the agreement was below its limit.

The graphs of every family and head in float32 are compared with the library in `tests/export/test_network.py` and
`tests/export/test_graph_model.py`: networks with random weights differ by less than 0.00001.

How to export: [Export a model as a graph](../how-to/export.md).
"""


def main() -> None:
    """Measure and write the page."""
    with tempfile.TemporaryDirectory() as folder:
        rows = list(rows_of(Path(folder)))
    text = PAGE_TEXT.format(
        packages=", ".join(f"{name} {metadata.version(name)}" for name in PACKAGES),
        machine=f"{cpu_name()}, {os.cpu_count()} cores",
        threads=f"OMP_NUM_THREADS={os.environ.get('OMP_NUM_THREADS', 'unset')}",
        rows="\n".join(rows),
    )
    write_text(PAGE, text)
    print(f"Wrote {PAGE}: {len(rows)} rows.")


def rows_of(folder: Path) -> Iterator[str]:
    """A line for each model, format and precision."""
    data = Path(os.environ["MASKWRIGHT_DATA"])
    for name, head, texts in MODELS:
        source = str(minilm_folder()) if name == "minilm" else name
        for to in registry.names("export_runtime"):
            for precision in ("fp32", *registry.resolve("export_format", to).conversions):
                typical = {"calibrate_on": data / texts} if precision == "int8" else {}
                config = ExportConfig(
                    model=source, output=folder / "out", to=to, head=head, precision=precision, replace=True, **typical
                )
                shown = head if head == "none" else registry_head(source)
                on = texts.split("/")[0] if typical else "drawn"
                yield f"| {name} | {shown} | {on} | {to} | {precision} | {outcome(config)} |"


def registry_head(source: str) -> str:
    """The head of a model folder."""
    from maskwright.api import load

    return str(load(source).head_name)


def outcome(config: ExportConfig) -> str:
    """Agreement, size and note of one export."""
    try:
        found = export_model(config)
    except MaskwrightError as error:
        figures = str(error).split(" texts: ")[-1].removesuffix(". Nothing is written.")
        return f"{figures} | | not written"
    left_out = found.spec.get("quantization", {}).get("products_in_float32")
    note = f"`{'`, `'.join(left_out)}` in float32" if left_out else ""
    print(config.model, config.to, config.precision, agreement(found), file=sys.stderr)
    return f"{agreement(found)} | {found.spec['size_bytes'] / 1e6:.1f} MB | {note}"


def agreement(found: Exported) -> str:
    """The figure that decides."""
    outputs = found.agreement.outputs
    if found.spec["precision"] == "fp32":
        return f"differs by {max(one.largest_difference for one in outputs.values()):.0e}"
    main = outputs.get("sentence_embedding") or next(iter(outputs.values()))
    return f"{main.min_cosine:.4f}" if main.same_class is None else f"{main.same_class:.1%}"


if __name__ == "__main__":
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))
    main()
