"""The model card: README.md of a saved folder, so that whoever finds it knows what it is and how to use it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..models.model import Model
from .family import Family

_TITLES = {
    None: "A text encoder",
    "mlm": "A masked language model",
    "clm": "A left-to-right language model",
    "bilm": "A pair of language models, one from each end",
    "seq2seq": "A translator",
    "nsp": "A next-sentence model",
    "pretraining": "A pre-trained encoder (masked words and sentence pairs)",
    "rtd": "A replaced-token detector",
    "classification": "A text classifier",
    "regression": "A text regressor",
    "tagging": "A token tagger",
    "tagging-crf": "A token tagger with a CRF",
    "qa": "A finder of answers in a text",
    "choice": "A multiple-choice model",
    "anomaly": "A detector of texts unlike those that it has learnt",
}
_TAGS = {
    "mlm": "fill-mask",
    "seq2seq": "translation",
    "pretraining": "fill-mask",
    "classification": "text-classification",
    "tagging": "token-classification",
    "tagging-crf": "token-classification",
    "qa": "question-answering",
    "choice": "multiple-choice",
}
_EMBED = "maskwright embed {folder} --input texts.txt --output vectors.npy"
_USES: dict[str | None, str] = {
    "mlm": 'maskwright fill-mask {folder} "the man went to the [MASK] ."',
    "seq2seq": 'maskwright translate {folder} "a text"',
    "nsp": 'maskwright next-sentence {folder} "He came in." "He sat down."',
    "pretraining": 'maskwright fill-mask {folder} "the man went to the [MASK] ."',
    "classification": 'maskwright predict {folder} "a text"',
    "regression": 'maskwright predict {folder} "a text"',
    "tagging": 'maskwright predict {folder} "a text"',
    "anomaly": 'maskwright predict {folder} "a text"',
    "tagging-crf": 'maskwright predict {folder} "a text"',
    "choice": 'maskwright predict {folder} "a context" --choice "one ending" --choice "another"',
}
_LONGEST_VALUE = 200


def model_card(model: Model, facts: Mapping[str, Any], family: Family) -> str:
    """Markdown with the front matter that model hubs read.

    facts: the content of maskwright.json; family: in whose format the folder is.
    """
    config = model.config
    is_sentence = model.head_name is None and model.sentence is not None
    tag = "sentence-similarity" if is_sentence else _TAGS.get(model.head_name or "", "feature-extraction")
    lines = ["---", "library_name: maskwright", f"pipeline_tag: {tag}", "tags:"]
    lines += [f"- {tag}" for tag in dict.fromkeys((family.model_type, "maskwright"))] + ["---", ""]
    lines += [f"# {'An encoder of sentences' if is_sentence else _TITLES[model.head_name]}", ""]
    inside = f"{config.num_attention_heads} heads" if config.recurrent is None else f"{config.recurrent.upper()} cells"
    lines += [
        f"{_kind(family)} with {config.num_hidden_layers} layers of {config.hidden_size}, "
        f"{inside}, a vocabulary of {config.vocab_size:,} and at most "
        f"{config.max_position_embeddings} tokens: {model.num_parameters:,} parameters.",
        "",
    ]
    if model.labels:
        lines += ["Labels: " + ", ".join(f"`{_one_line(label)}`" for label in model.labels), ""]
    rows = _rows({key: value for key, value in facts.items() if key not in ("format", "labels")})
    lines += ["## How it was made", "", "| | |", "| --- | --- |"]
    lines += [f"| {name} | {value} |" for name, value in rows]
    lines += ["", "## Use", "", "```sh", _USES.get(model.head_name, _EMBED).format(folder="this-folder"), "```", ""]
    lines += ["```python", "import maskwright as mw", 'model = mw.load("this-folder")', "```", ""]
    if not family.encoder:
        lines += ["transformers has no class for this network: the folder opens in Maskwright alone.", ""]
        return "\n".join(lines)
    architecture = family.class_of(model.head_name)
    lines += ["It opens in transformers as well:", "", "```python", f"from transformers import {architecture}"]
    lines += [f'model = {architecture}.from_pretrained("this-folder")', "```", ""]
    return "\n".join(lines)


def _kind(family: Family) -> str:
    return family.title if family.encoder else "A network that no published family describes,"


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
