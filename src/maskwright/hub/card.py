"""The model card: README.md of a saved folder, so that whoever finds it knows what it is and how to use it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..models.model import Model

_TITLES = {
    None: "A text encoder",
    "mlm": "A masked language model",
    "nsp": "A next-sentence model",
    "pretraining": "A pre-trained BERT (masked words and next sentence)",
    "classification": "A text classifier",
    "regression": "A text regressor",
}
_TAGS = {"mlm": "fill-mask", "pretraining": "fill-mask", "classification": "text-classification"}
_USES = {
    None: "maskwright embed {folder} --input texts.txt --output vectors.npy",
    "mlm": 'maskwright fill-mask {folder} "the man went to the [MASK] ."',
    "nsp": 'maskwright next-sentence {folder} "He came in." "He sat down."',
    "pretraining": 'maskwright fill-mask {folder} "the man went to the [MASK] ."',
    "classification": 'maskwright predict {folder} "a text"',
    "regression": 'maskwright predict {folder} "a text"',
}
_LONGEST_VALUE = 200


def model_card(model: Model, facts: Mapping[str, Any], architecture: str) -> str:
    """Markdown with the front matter that model hubs read. facts: the content of maskwright.json."""
    config = model.config
    tag = _TAGS.get(model.head_name or "", "feature-extraction")
    lines = ["---", "library_name: maskwright", f"pipeline_tag: {tag}", "tags:", "- bert", "- maskwright", "---", ""]
    lines += [f"# {_TITLES[model.head_name]}", ""]
    lines += [
        f"BERT with {config.num_hidden_layers} layers of {config.hidden_size}, {config.num_attention_heads} heads, a "
        f"vocabulary of {config.vocab_size:,} and at most {config.max_position_embeddings} tokens: "
        f"{model.num_parameters:,} parameters.",
        "",
    ]
    if model.labels:
        lines += ["Labels: " + ", ".join(f"`{_one_line(label)}`" for label in model.labels), ""]
    rows = _rows({key: value for key, value in facts.items() if key not in ("format", "labels")})
    lines += ["## How it was made", "", "| | |", "| --- | --- |"]
    lines += [f"| {name} | {value} |" for name, value in rows]
    lines += ["", "## Use", "", "```sh", _USES[model.head_name].format(folder="this-folder"), "```", ""]
    lines += ["```python", "import maskwright as mw", 'model = mw.load("this-folder")', "```", ""]
    lines += ["It opens in transformers as well:", "", "```python", f"from transformers import {architecture}"]
    lines += [f'model = {architecture}.from_pretrained("this-folder")', "```", ""]
    return "\n".join(lines)


def _rows(facts: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Nested facts as (name, value) with dotted names."""
    rows: list[tuple[str, str]] = []
    for key, value in facts.items():
        if isinstance(value, Mapping):
            rows += _rows(value, f"{prefix}{key}.")
        elif value is not None:
            text = f"{value:.6g}" if isinstance(value, float) else str(value)
            rows.append((_one_line(f"{prefix}{key}"), _one_line(text)))
    return rows


def _one_line(text: str) -> str:
    """Text that cannot break out of a table cell: no line break, bar, backtick or angle bracket; cut if long."""
    text = " ".join(text.split())
    for mark, instead in (("|", "/"), ("`", "'"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(mark, instead)
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 3] + "..."
