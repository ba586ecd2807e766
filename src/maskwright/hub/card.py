"""Model card (README.md) of a saved folder: what the model is and how to use it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath, PurePosixPath, PureWindowsPath
from typing import Any

from ..core.config import suggested_command
from ..models.model import Model
from .family import Family

_VECTORS = "feature-extraction"
_EMBED: dict[str, Any] = {"command": "embed", "input": "texts.txt", "output": "embeddings.npy"}
_FILL = {"command": "fill-mask", "texts": "the man went to the [MASK] ."}
_PREDICT = {"command": "predict", "texts": "a text"}
_PAIR = {"command": "predict", "texts": "He came in.", "pair": "He sat down."}
_CHOOSE = {"command": "predict", "texts": "a context", "choice": ("one ending", "another ending")}
# Of each head: the title, the tag of model hubs, and the command that uses it, with its settings besides `model`.
_HEADS: dict[str | None, tuple[str, str, dict[str, Any]]] = {
    None: ("A text encoder", _VECTORS, _EMBED),
    "mlm": ("A masked language model", "fill-mask", _FILL),
    "clm": ("A causal language model", _VECTORS, {"command": "generate", "prompts": "a text"}),
    "bilm": ("A forward and a backward language model", _VECTORS, _EMBED),
    "seq2seq": ("A translation model", "translation", {"command": "translate", "texts": "a text"}),
    "nsp": ("A next-sentence model", _VECTORS, _PAIR),
    "pretraining": ("A pre-trained encoder (masked tokens and sentence pairs)", "fill-mask", _FILL),
    "rtd": ("A replaced-token detector", _VECTORS, _EMBED),
    "classification": ("A text classifier", "text-classification", _PREDICT),
    "regression": ("A text regressor", _VECTORS, _PREDICT),
    "tagging": ("A token classifier", "token-classification", _PREDICT),
    "tagging-crf": ("A token classifier with a CRF", "token-classification", _PREDICT),
    "qa": ("A question-answering model", "question-answering",
           {"command": "answer", "question": "Who?", "context": "a text"}),
    "choice": ("A multiple-choice model", "multiple-choice", _CHOOSE),
    "anomaly": ("An anomaly detector", _VECTORS, _PREDICT),
}  # fmt: skip
_LONGEST_VALUE = 200
_UNLISTED = ("format", "labels", "manifest", "examples")  # entries of maskwright.json that the card does not repeat


def model_card(model: Model, facts: Mapping[str, Any], family: Family, *, is_int8: bool = False) -> str:
    """Returns a Markdown model card with the front matter that model hubs read.

    facts: content of maskwright.json; family: format of the folder; is_int8: the weights are stored by rows.
    """
    config = model.config
    is_sentence = model.head_name is None and model.sentence is not None
    title, tag, _ = _HEADS[model.head_name]
    if is_sentence:
        title, tag = "A sentence encoder", "sentence-similarity"
    elif facts.get("task") == "regression" and facts.get("scale"):
        title, tag = "A cross-encoder (reranker)", "text-ranking"
    elif facts.get("task") == "similarity" and model.head_name is not None:
        title, tag = "A sparse sentence encoder (SPLADE)", "feature-extraction"
    inside = f"{config.num_attention_heads} heads" if config.recurrent is None else f"{config.recurrent.upper()} cells"
    about = (
        f"{family.title if family.encoder else 'A custom architecture'} with {config.num_hidden_layers} layers of "
        f"{config.hidden_size}, {inside}, a vocabulary of {config.vocab_size:,} and at most "
        f"{config.max_position_embeddings} tokens: {model.num_parameters:,} parameters."
    )
    if not family.encoder:
        last = ["transformers has no class for this network: only Maskwright can load this folder."]
    elif is_int8:
        to_float32 = suggested_command("export", model="this-folder", to="folder", output="float32", weights="fp32")
        last = [
            "Its weights are int8 with a scale per row, which only Maskwright reads. For transformers, write a copy:",
            f"```sh\n{to_float32}\n```",
        ]
    else:
        name = family.class_of(model.head_name)
        program = f'from transformers import {name}\nmodel = {name}.from_pretrained("this-folder")'
        last = ["It also loads in transformers:", f"```python\n{program}\n```"]
    front = ["library_name: maskwright", f"pipeline_tag: {tag}"]
    return _page(front, dict.fromkeys((family.model_type, "maskwright")), [f"# {title}", about], last, model, facts)


def adapter_card(model: Model, facts: Mapping[str, Any], base: str) -> str:
    """Returns the model card of an adapter folder. base: name of the base model; the path of a folder is not shown."""
    assert model.adapter is not None
    base, config = str(without_folders(base)), model.adapter.config
    trained = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    about = (
        f"{trained:,} trained parameters (rank {config.rank}, alpha {config.alpha:g}) on the base model `{base}`, "
        "whose weights are not in this folder and have not changed."
    )
    merge = suggested_command("export", model="this-folder", to="folder", output="merged")
    first = [f"# {_HEADS[model.head_name][0]}: a LoRA adapter", about]
    last = [f"A whole model: `{merge}`. The folder also loads in PEFT."]
    facts = {key: value for key, value in facts.items() if key != "adapter"}
    return _page(["library_name: peft", f"base_model: {base}"], ("lora", "maskwright"), first, last, model, facts)


def _page(
    front: Sequence[str],
    tags: Iterable[str],
    first: Sequence[str],
    last: Sequence[str],
    model: Model,
    facts: Mapping[str, Any],
) -> str:
    """The page: front matter, the first paragraphs, labels, facts, how to use it, the last paragraphs."""
    rows = _rows({key: value for key, value in facts.items() if key not in _UNLISTED})
    labels = ", ".join(f"`{_one_line(label)}`" for label in model.labels)
    parts = [
        "\n".join(["---", *front, "tags:", *(f"- {tag}" for tag in tags), "---"]),
        *first,
        *([f"Labels: {labels}"] if labels else []),
        "## Training",
        "\n".join(["| | |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in rows)]),
        "## Use",
        f"```sh\n{suggested_command(model='this-folder', **_HEADS[model.head_name][2])}\n```",
        '```python\nimport maskwright as mw\nmodel = mw.load("this-folder")\n```',
        *last,
    ]
    return "\n\n".join(parts) + "\n"


def _rows(facts: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Flatten nested facts to (dotted name, value) pairs."""
    rows: list[tuple[str, str]] = []
    for key, value in facts.items():
        if isinstance(value, Mapping):
            rows += _rows(value, f"{prefix}{key}.")
        elif value is not None:
            text = f"{value:.6g}" if isinstance(value, float) else str(without_folders(value))
            rows.append((_one_line(f"{prefix}{key}"), _one_line(text)))
    return rows


def without_folders(value: Any) -> Any:
    """Remove private paths from settings: keep only the file name of absolute paths, also in lists and "NAME:PATH"."""
    if isinstance(value, Mapping):
        return {key: without_folders(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_folders(inner) for inner in value]
    if isinstance(value, PurePath):
        value = str(value)
    if not isinstance(value, str):
        return value
    name, colon, rest = value.partition(":")
    if colon and len(name) > 1 and _is_absolute(rest):
        return f"{name}:{without_folders(rest)}"
    return PureWindowsPath(value).name or value if _is_absolute(value) else value


def _is_absolute(text: str) -> bool:
    """Whether a text is an absolute path on any operating system, or starts with a home directory."""
    return PurePosixPath(text).is_absolute() or PureWindowsPath(text).is_absolute() or text.startswith(("~", "\\\\"))


def _one_line(text: str) -> str:
    """Escape text for a table cell: no line breaks, bars, backticks or angle brackets; long text is truncated."""
    text = " ".join(text.split())
    for mark, instead in (("|", "/"), ("`", "'"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(mark, instead)
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 3] + "..."
