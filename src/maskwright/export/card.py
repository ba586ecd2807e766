"""README.md of an exported folder: what the graph is, how it agrees with the model, and how to run it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any

from ..core import registry
from ..models.heads import REGRESSION, ChoiceHead, SequenceClassificationHead, SpanHead, TokenClassificationHead
from ..models.model import Model
from ..models.pretraining_heads import MaskedLanguageModelHead, NextSentenceHead, PretrainingHead, ReplacedTokenHead
from .cached import CLM, SEQ2SEQ, Network
from .config import ExportConfig
from .format import Format
from .graph_model import is_dynamic
from .network import PaddedNetwork
from .program import FLOATS
from .runtimes import IDS, MASK, PAST, POSITIONS, TYPES, compute_hint

# -- The entry "export" of maskwright.json: what a program in any language needs to run the graph --------------------


def specification(
    networks: Sequence[Network],
    config: ExportConfig,
    files: Mapping[str, Sequence[str]],
    max_length: int,
    longest: int,
    left_out: Sequence[str] = (),
) -> dict[str, Any]:
    """Describes the graphs of a model.

    files: of each graph, itself first; max_length, longest: usual and greatest sequence length in tokens; left_out:
    products that are not quantized.
    """
    model = networks[0].model
    found: dict[str, Any] = {
        "format": config.to,
        "precision": config.precision,
        "graphs": {network.name: _graph(network, files[network.name]) for network in networks},
    }
    form: Format = registry.resolve("export_format", config.to)
    conversion = form.conversions.get(config.precision)
    packages = (*form.packages, *(() if conversion is None else conversion.packages))
    if conversion is not None and conversion.facts:
        found["quantization"] = {**conversion.facts, "products_in_float32": list(left_out)}
    return found | {
        **{name: getattr(config, name) for name in form.settings},
        "head": model.head_name,
        "max_length": max_length,
        "longest": longest,
        "preprocessing": _preprocessing(model, TYPES in networks[0].inputs),
        "postprocessing": _postprocessing(model, networks[0]),
        "versions": {name: metadata.version(name) for name in ("maskwright", "torch", *packages)},
    }


def _graph(network: Network, files: Sequence[str]) -> dict[str, Any]:
    floats = (*FLOATS, *network.outputs)
    inputs, outputs = (
        [
            {"name": name, "dtype": "float32" if name.startswith(floats) else "int64", "axes": network.axes(name)}
            for name in named
        ]
        for named in (network.inputs, network.outputs)
    )
    return {"file": files[0], "data": list(files[1:]), "inputs": inputs, "outputs": outputs}


def _preprocessing(model: Model, has_types: bool) -> dict[str, Any]:
    tokenizer, pad = model.tokenizer, model.config.pad_token_id
    files = [] if tokenizer is None else list(tokenizer.files())
    own = None if tokenizer is None else tokenizer.pad_id
    is_causal = model.head_name == CLM
    prompt = "" if model.sentence is None or model.head is not None else model.sentence.prompt
    types = "0 for the tokens of the first text and its special tokens, 1 for those of the second text of a pair"
    return {
        "tokenizer": "tokenizer.json" if "tokenizer.json" in files else None,
        "tokenizer_files": files,
        **({"prompt": f"{prompt!r} before every text"} if prompt else {}),
        "special_tokens": "those that begin a text" if is_causal else "added by the post-processor of tokenizer.json",
        "truncation": {
            "max_length": "max_length",
            "strategy": "longest_first",
            "side": "left" if is_causal else "right",
        },
        "padding": {
            "side": "left" if is_causal else "right",
            "id": next((one for one in (own, pad) if one is not None), 0),
        },
        "attention_mask": "1 for tokens, 0 for padding",
        **({"token_type_ids": types} if has_types else {}),
    }


def _postprocessing(model: Model, network: Network) -> dict[str, Any]:  # noqa: PLR0911  # one per kind of head
    head = model.head
    if model.head_name in (CLM, SEQ2SEQ):
        return _generation(model)
    if head is None:
        assert isinstance(network, PaddedNetwork)
        declared = network.declared
        method = {"cls": "the vector of the first token", "mean": "the mean of the vectors of all tokens"}
        return {
            "sentence_embedding": {
                "pooling": declared.pooling,
                "normalize": declared.normalize,
                "normalize_tokens": declared.normalize_tokens,
                "dimensions": declared.dimensions,
                "meaning": f"{method.get(declared.pooling, 'the maximum of each dimension over all tokens')}, special "
                f"tokens included, padding excluded{', each token scaled to length 1' * declared.normalize_tokens}"
                f"{'; scaled to length 1' * declared.normalize}"
                f"{f'; the first {declared.dimensions} dimensions' if declared.dimensions else ''}; done in the graph",
            }
        }
    if isinstance(head, TokenClassificationHead):
        return {
            "labels": list(model.labels),
            "function": "softmax over the labels",
            "words": "the label of a word is that of its first subword token; special tokens have none",
        }
    if isinstance(head, SpanHead):
        return {
            "function": "softmax of start_logits and of end_logits over the tokens of the sequence, padding excluded",
            "answer": "start <= end, both in the second text, with the greatest sum of logits; the first token at both "
            "ends means no answer",
            "offsets": "character offsets of the tokens from the tokenizer",
        }
    if isinstance(head, ChoiceHead):
        return {"function": "softmax over the choices of a question"}
    if isinstance(head, SequenceClassificationHead):
        if model.problem_type == REGRESSION:
            function = "none: the logits are the predicted numbers"
        elif model.problem_type == "multi_label_classification":
            function = "sigmoid of each label"
        else:
            function = "softmax over the labels"
        return {"labels": list(model.labels), "function": function}
    if isinstance(head, ReplacedTokenHead):
        return {"function": "sigmoid: the probability that a token was replaced"}
    if isinstance(head, NextSentenceHead):
        return {"function": "softmax over 0 (the second text follows) and 1 (it does not)"}
    if isinstance(head, MaskedLanguageModelHead | PretrainingHead):
        return {"function": "softmax over the vocabulary at the positions of the mask token"}
    return {"function": "none: the logits are the reconstruction errors"}


def _generation(model: Model) -> dict[str, Any]:
    """How tokens are generated from the graphs."""
    cache = "past_key_values of the first call have 0 tokens; those of each later call are present of the one before"
    if model.head_name == CLM:
        end = None if model.tokenizer is None else model.tokenizer.eos_id
        return {"function": "softmax over the vocabulary: the next token", "cache": cache, "end_token_id": end}
    config = model.config
    return {
        "function": "softmax over the vocabulary: the next token of the target, which starts with the start token",
        "cache": f"{cache}; encoder_hidden_states and encoder_attention_mask are the same in every call",
        "start_token_id": config.decoder_start_token_id,
        "end_token_id": config.eos_token_id,
    }


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
