"""What an exported folder says of its graph: the entry "export" of maskwright.json for programs, and README.md."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any

from ..models.heads import REGRESSION
from ..models.model import Model
from .cached import CLM, Network
from .config import INT8, ExportConfig
from .graph_model import is_dynamic
from .network import PaddedNetwork
from .program import FLOATS
from .runtimes import IDS, MASK, PAST, POSITIONS, TYPES, compute_hint, format_of

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
    model, form = networks[0].model, format_of(config.to)
    packages = ["maskwright", "torch", *form.packages]
    found: dict[str, Any] = {
        "format": config.to,
        "precision": config.precision,
        "graphs": {network.name: _graph(network, files[network.name]) for network in networks},
    }
    if config.precision == INT8:
        found["quantization"] = {**form.quantization, "products_in_float32": list(left_out)}
        packages.append(form.quantization["quantizer"])
    return found | {
        **({"opset": config.opset} if config.to == "onnx" else {}),
        "head": model.head_name,
        "max_length": max_length,
        "longest": longest,
        "preprocessing": _preprocessing(model, TYPES in networks[0].inputs),
        "postprocessing": _postprocessing(model, networks[0]),
        "versions": {name: metadata.version(name) for name in packages},
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
    tokenizer, side = model.tokenizer, "left" if model.head_name == CLM else "right"
    files = [] if tokenizer is None else list(tokenizer.files())
    pads = (None if tokenizer is None else tokenizer.pad_id, model.config.pad_token_id, 0)
    prompt = "" if model.sentence is None or model.head is not None else model.sentence.prompt
    types = "0 for the tokens of the first text and its special tokens, 1 for those of the second text of a pair"
    return {
        "tokenizer": "tokenizer.json" if "tokenizer.json" in files else None,
        "tokenizer_files": files,
        **({"prompt": f"{prompt!r} before every text"} if prompt else {}),
        "special_tokens": "added by the post-processor of tokenizer.json"
        if side == "right"
        else "those that begin a text",
        "truncation": {"max_length": "max_length", "strategy": "longest_first", "side": side},
        "padding": {"side": side, "id": next(one for one in pads if one is not None)},
        "attention_mask": "1 for tokens, 0 for padding",
        **({"token_type_ids": types} if has_types else {}),
    }


_CACHE = "past_key_values of the first call have 0 tokens; those of each later call are present of the one before"
_WORDS = {"function": "softmax over the vocabulary at the positions of the mask token"}
_MEANING: dict[str, dict[str, Any]] = {  # of the outputs of a head
    "mlm": _WORDS,
    "pretraining": _WORDS,
    "nsp": {"function": "softmax over 0 (the second text follows) and 1 (it does not)"},
    "rtd": {"function": "sigmoid: the probability that a token was replaced"},
    "tagging": {
        "function": "softmax over the labels",
        "words": "the label of a word is that of its first subword token; special tokens have none",
    },
    "qa": {
        "function": "softmax of start_logits and of end_logits over the tokens of the sequence, padding excluded",
        "answer": "start <= end, both in the second text, with the greatest sum of logits; the first token at both "
        "ends means no answer",
        "offsets": "character offsets of the tokens from the tokenizer",
    },
    "choice": {"function": "softmax over the choices of a question"},
    "anomaly": {"function": "none: the logits are the reconstruction errors"},
    "clm": {"function": "softmax over the vocabulary: the next token", "cache": _CACHE},
    "seq2seq": {
        "function": "softmax over the vocabulary: the next token of the target, which starts with the start token",
        "cache": f"{_CACHE}; encoder_hidden_states and encoder_attention_mask are the same in every call",
    },
}
_OF_PROBLEM = {
    REGRESSION: "none: the logits are the predicted numbers",
    "multi_label_classification": "sigmoid of each label",
}
_OF_POOLING = {
    "cls": "the vector of the first token",
    "mean": "the mean of the vectors of all tokens",
    "max": "the maximum of each dimension over all tokens",
}


def _postprocessing(model: Model, network: Network) -> dict[str, Any]:
    head, config = model.head_name, model.config
    found: dict[str, Any] = {"labels": list(model.labels)} if model.labels else {}
    if head is None:
        assert isinstance(network, PaddedNetwork)
        declared = network.declared
        meaning = f"{_OF_POOLING[declared.pooling]}, special tokens included, padding excluded"
        meaning += ", each token scaled to length 1" * declared.normalize_tokens
        meaning += "; scaled to length 1" * declared.normalize
        meaning += f"; the first {declared.dimensions} dimensions" if declared.dimensions else ""
        names = ("pooling", "normalize", "normalize_tokens", "dimensions")
        settings = {name: getattr(declared, name) for name in names}
        return {"sentence_embedding": {**settings, "meaning": f"{meaning}; done in the graph"}}
    if head in ("classification", "regression"):
        return found | {"function": _OF_PROBLEM.get(model.problem_type or "", "softmax over the labels")}
    if head == "seq2seq":
        found = {"start_token_id": config.decoder_start_token_id, "end_token_id": config.eos_token_id}
    elif head == CLM:
        found = {"end_token_id": None if model.tokenizer is None else model.tokenizer.eos_id}
    return found | _MEANING[head]


# -- README.md -------------------------------------------------------------------------------------------------------


FIELDS = {IDS: "ids", MASK: "attention_mask", TYPES: "type_ids"}  # of an encoding of `tokenizers`, by input
AGREEMENT = {"min_cosine": ".4f", "correlation": ".4f", "same_class": ".1%"}  # figures of an output and their formats

PAGE = """---
library_name: maskwright
tags:
- {format}
- maskwright
---

# An exported model: {head}, {format}, {precision}

{graphs}

{size:,.1f} MB. At most {longest:,} tokens; usually {max_length:,}. `maskwright.json`, entry `export`, has all of it \
for programs.{more}

## Agreement with the model

{num_texts} texts in batches of unequal lengths, by {runtime}:

| output | compared | largest difference | smallest cosine | correlation | equal classes |
| --- | --- | --- | --- | --- | --- |
{rows}

Differences are fractions of the largest number of the output.

{program}"""

# Programs that need the runtime, numpy and `tokenizers` alone. Their loops have the lines that run a graph.
BATCHES = """import numpy
{imports}
from tokenizers import Tokenizer

tokenizer = Tokenizer.from_file("tokenizer.json")
tokenizer.enable_truncation({max_length})
tokenizer.enable_padding(pad_id={pad_id})
{opened}
for texts in {batches}:
    encoded = tokenizer.encode_batch(texts)
    arrays = {{
{arrays}
    }}
    {run}
    print({{name: one.shape for name, one in zip({names}, outputs)}})
"""
GENERATION = f"""import numpy
{{imports}}
from tokenizers import Tokenizer

tokenizer = Tokenizer.from_file("tokenizer.json")
{{opened}}
names = {{names}}
ids = {{opening}} + tokenizer.encode("a text", add_special_tokens=False).ids
cache = {{{{name.replace("present", "{PAST}"): numpy.zeros({{shape}}, "float32") for name in names[1:]}}}}
new = ids
for _ in range(20):
    arrays = {{{{
        "{IDS}": numpy.array([new]),
        "{MASK}": numpy.ones((1, len(ids)), "int64"),
        "{POSITIONS}": numpy.arange(len(ids) - len(new), len(ids))[None],
        **cache,
    }}}}
    {{run}}
    cache = dict(zip(cache, outputs[1:]))
    new = [int(outputs[0][0, -1].argmax())]
    ids = ids + new
print(tokenizer.decode(ids))
"""
AFTER_ALONE = (
    "\nRun one text per call: the ranges of its activations are those of the whole call, so padding and other texts "
    "change its result.\n"
)


def export_card(model: Model, spec: Mapping[str, Any]) -> str:
    """Returns the page. spec: the entry "export" of maskwright.json."""
    graphs = [
        f"`{one['file']}`: inputs {_named(one['inputs'])}; outputs {_named(one['outputs'])}."
        for one in spec["graphs"].values()
    ]
    more = f" As float32 it is {spec['float32_size_bytes'] / 1e6:,.1f} MB." if "float32_size_bytes" in spec else ""
    if left_out := spec.get("quantization", {}).get("products_in_float32"):
        more += f" Products that are not quantized: {', '.join(left_out)} of every layer."
    agreement = spec["agreement"]
    rows = [
        f"| `{name}` | {one['compared']:,} | {one['largest_difference']:.1e} | {' | '.join(figures_of(one))} |"
        for name, one in agreement["outputs"].items()
    ]
    return PAGE.format_map(
        {
            **spec,
            **agreement,
            "head": spec["head"] or "encoder",
            "graphs": "\n\n".join(graphs),
            "size": spec["size_bytes"] / 1e6,
            "more": more,
            "rows": "\n".join(rows),
            "program": _program(model, spec),
        }
    )


def figures_of(output: Mapping[str, Any]) -> list[str]:
    """The figures of AGREEMENT of an output as text, "" for those that it does not have."""
    return ["" if output[key] is None else format(output[key], form) for key, form in AGREEMENT.items()]


def _named(values: list[dict[str, Any]]) -> str:
    """Names, types and axes; a cache is named once for all layers."""
    found = {
        re.sub(r"\.\d+\.", ".N.", one["name"]): f"{one['dtype']} [{', '.join(map(str, one['axes']))}]" for one in values
    }
    return ", ".join(f"`{name}` {kind}" for name, kind in found.items())


def _program(model: Model, spec: Mapping[str, Any]) -> str:
    """The section with a program that runs the graph; "" without a tokenizer.json, and for graphs that need more."""
    form, graph = format_of(spec["format"]), list(spec["graphs"].values())[-1]
    if form.open is None:
        return f"## With torch\n\n```python\nimport torch\n{form.script[0].format(file=graph['file'])}\n```\n"
    is_single = all(one["name"] in FIELDS and len(one["axes"]) == 2 for one in graph["inputs"])
    if not spec["preprocessing"]["tokenizer"] or not (is_single or model.head_name == CLM):
        return ""
    names, is_alone = [one["name"] for one in graph["outputs"]], is_dynamic(spec)
    arrays = [
        f'        "{one["name"]}": numpy.array([row.{FIELDS[one["name"]]} for row in encoded], dtype="int64"),'
        for one in graph["inputs"]
        if is_single
    ]
    lines = {
        "file": graph["file"],
        "names": names if is_single else "names",
        "compute": compute_hint(spec["precision"]),
    }
    imports, opened, run = (line.format_map(lines) for line in form.script)
    texts = ["a text", "another, longer text"]
    program = (BATCHES if is_single else GENERATION).format(
        imports=imports,
        opened=opened,
        run=run.replace("\n", "\n    "),
        names=names,
        arrays="\n".join(arrays),
        batches=[[text] for text in texts] if is_alone else [texts],
        max_length=spec["max_length"],
        pad_id=spec["preprocessing"]["padding"]["id"],
        opening=[] if model.tokenizer is None else list(model.tokenizer.opening_ids),
        shape=[1, model.config.num_attention_heads, 0, model.config.head_dim],
    )
    return f"## Without maskwright\n\n```python\n{program}```\n{AFTER_ALONE if is_alone and is_single else ''}"
