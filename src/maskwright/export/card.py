"""README.md of an exported folder: what the graph is, how it agrees with the model, and how to run it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..core import registry
from ..models.model import Model
from .cached import CLM
from .format import Format
from .graph_decoder import is_dynamic
from .padding import IDS, MASK, PAST, POSITIONS, TYPES
from .runtimes import compute_hint

FIELDS = {IDS: "ids", MASK: "attention_mask", TYPES: "type_ids"}  # of an encoding of `tokenizers`, by input
AGREEMENT = {"min_cosine": ".4f", "correlation": ".4f", "same_class": ".1%"}  # figures of an output and their formats


def export_card(model: Model, spec: Mapping[str, Any]) -> str:
    """Returns the page. spec: the entry "export" of maskwright.json."""
    lines = ["---", "library_name: maskwright", "tags:", f"- {spec['format']}", "- maskwright", "---", ""]
    lines += [f"# An exported model: {spec['head'] or 'encoder'}, {spec['format']}, {spec['precision']}", ""]
    for graph in spec["graphs"].values():
        lines += [f"`{graph['file']}`: inputs {_named(graph['inputs'])}; outputs {_named(graph['outputs'])}.", ""]
    lines += [
        f"{spec['size_bytes'] / 1e6:,.1f} MB. At most {spec['longest']:,} tokens; usually {spec['max_length']:,}. "
        "`maskwright.json`, entry `export`, has all of it for programs.",
        "",
    ]
    if "float32_size_bytes" in spec:
        lines[-2] += f" As float32 it is {spec['float32_size_bytes'] / 1e6:,.1f} MB."
    left_out = spec.get("quantization", {}).get("products_in_float32")
    if left_out:
        lines[-2] += f" Products that are not quantized: {', '.join(left_out)} of every layer."
    lines += _agreement(spec["agreement"])
    form: Format = registry.resolve("export_format", spec["format"])
    is_single = all(one["name"] in FIELDS and len(one["axes"]) == 2 for one in graph["inputs"])
    if form.script is not None and spec["preprocessing"]["tokenizer"]:
        if is_single:
            lines += _script(spec, form.script)
        elif model.head_name == CLM:
            lines += _generation_script(model, spec, form.script)
    if form.loading:
        lines += ["## With torch", "", "```python", "import torch", form.loading.format(file=graph["file"]), "```", ""]
    return "\n".join(lines)


def format_or_empty(value: float | None, form: str) -> str:
    """Returns a figure in a format, "" for None."""
    return "" if value is None else format(value, form)


def _named(values: list[dict[str, Any]]) -> str:
    """Names, types and axes; a cache is named once for all layers."""
    found = {
        re.sub(r"\.\d+\.", ".N.", one["name"]): f"{one['dtype']} [{', '.join(map(str, one['axes']))}]" for one in values
    }
    return ", ".join(f"`{name}` {kind}" for name, kind in found.items())


def _agreement(found: Mapping[str, Any]) -> list[str]:
    lines = ["## Agreement with the model", "", f"{found['num_texts']} texts in batches of unequal lengths, by "]
    lines[-1] += f"{found['runtime']}:"
    lines += [
        "",
        "| output | compared | largest difference | smallest cosine | correlation | equal classes |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, one in found["outputs"].items():
        fields = [format_or_empty(one[key], form) for key, form in AGREEMENT.items()]
        lines.append(f"| `{name}` | {one['compared']:,} | {one['largest_difference']:.1e} | {' | '.join(fields)} |")
    return [*lines, "", "Differences are fractions of the largest number of the output.", ""]


def _script(spec: Mapping[str, Any], script: tuple[str, str, str]) -> list[str]:
    """A program that needs the runtime, numpy and `tokenizers` alone."""
    graph = spec["graphs"]["model"]
    names = [one["name"] for one in graph["outputs"]]
    values = {"file": graph["file"], "names": names, "compute": compute_hint(spec["precision"])}
    imports, opened, run = (line.format(**values) for line in script)
    lines = ["## Without maskwright", "", "```python", "import numpy", imports, "from tokenizers import Tokenizer", ""]
    lines += ['tokenizer = Tokenizer.from_file("tokenizer.json")']
    lines += [f"tokenizer.enable_truncation({spec['max_length']})"]
    texts = '["a text", "another, longer text"]'
    body = ["arrays = {"]
    for one in graph["inputs"]:
        body += [f'    "{one["name"]}": numpy.array([row.{FIELDS[one["name"]]} for row in encoded], dtype="int64"),']
    body += ["}", *run.replace("inputs", "arrays").split("\n")]
    body += ["print({name: one.shape for name, one in zip(" + str(names) + ", outputs)})"]
    if is_dynamic(spec):
        lines += [opened, f"for text in {texts}:", "    encoded = [tokenizer.encode(text)]"]
        lines += [f"    {line}" for line in body]
        after = (
            "Run one text per call: the ranges of its activations are those of the whole call, so padding and other "
        )
        after += "texts change its result."
        return [*lines, "```", "", after, ""]
    lines += [f"tokenizer.enable_padding(pad_id={spec['preprocessing']['padding']['id']})"]
    return [*lines, f"encoded = tokenizer.encode_batch({texts})", opened, *body, "```", ""]


def _generation_script(model: Model, spec: Mapping[str, Any], script: tuple[str, str, str]) -> list[str]:
    """A program that continues a text greedily, token by token."""
    graph, config = spec["graphs"]["model"], model.config
    names = [one["name"] for one in graph["outputs"]]
    values = {"file": graph["file"], "names": "names", "compute": compute_hint(spec["precision"])}
    imports, opened, run = (line.format(**values) for line in script)
    opening = [] if model.tokenizer is None else list(model.tokenizer.opening_ids)
    lines = ["## Without maskwright", "", "```python", "import numpy", imports, "from tokenizers import Tokenizer", ""]
    lines += ['tokenizer = Tokenizer.from_file("tokenizer.json")', opened, f"names = {names}"]
    lines += [f'ids = {opening} + tokenizer.encode("a text", add_special_tokens=False).ids']
    shape = [1, config.num_attention_heads, 0, config.head_dim]
    lines += [f'cache = {{name.replace("present", "{PAST}"): numpy.zeros({shape}, "float32") for name in names[1:]}}']
    lines += ["new = ids", "for _ in range(20):", "    arrays = {"]
    lines += [f'        "{IDS}": numpy.array([new]),']
    lines += [f'        "{MASK}": numpy.ones((1, len(ids)), "int64"),']
    lines += [f'        "{POSITIONS}": numpy.arange(len(ids) - len(new), len(ids))[None],', "        **cache,", "    }"]
    lines += [f"    {line}" for line in run.replace("inputs", "arrays").split("\n")]
    lines += [
        "    cache = dict(zip(cache, outputs[1:]))",
        "    new = [int(outputs[0][0, -1].argmax())]",
        "    ids = ids + new",
    ]
    return [*lines, "print(tokenizer.decode(ids))", "```", ""]
