"""Reads tables of static token vectors: folders of model2vec, and of StaticEmbedding of sentence-transformers.

A text is the mean of the vectors of its tokens, without special tokens. A table of model2vec may be smaller than the
vocabulary (`mapping`: the row of each token) and have a weight for each token. As in sentence-transformers, an unknown
word counts; model2vec itself leaves it out.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from tokenizers import Tokenizer as Backend
from torch import Tensor

from ..core.errors import CorruptFileError, ModelFolderError
from ..core.storage import MODEL_CONFIG, inside, read_json
from ..models.build import build
from ..models.model import Model, SentenceSettings
from ..models.presets import preset
from ..text.tokenizers.tokenizer import Tokenizer
from .sentence import MODULES, declared_by, modules_of
from .weights import weight_files

PRESET, TOKENIZER = "bag-small", "tokenizer.json"
TABLES = ("embedding.weight", "embeddings")  # of sentence-transformers and of model2vec


def static_folder(folder: Path, role: str | None = None) -> Path | None:
    """Returns the folder with the table of token vectors; None for another kind of folder. role: as in `modules_of`."""
    if (folder / MODULES).is_file():
        paths = [
            str(module.get("path") or "") for kind, module in modules_of(folder, role) if kind == "StaticEmbedding"
        ]
        return inside(folder, paths[0]) if paths else None
    path = folder / MODEL_CONFIG
    config = read_json(path) if path.is_file() else {}
    return folder if isinstance(config, dict) and config.get("model_type") == "model2vec" else None


def load_static(folder: Path, own: Path, root: Path, role: str | None = None) -> Model:
    """Returns the table as a network without layers, with its tokenizer and settings.

    own: from `static_folder`; root: as in `Weights`; role: as in `modules_of`. Raises ModelFolderError if table and
    tokenizer differ in size.
    """
    tokenizer = _without_template(Tokenizer.load(own / TOKENIZER))
    table = _table(own, root)
    if len(table) < tokenizer.vocab_size:
        raise ModelFolderError(
            f"{own} has vectors for {len(table):,} tokens, but its tokenizer has {tokenizer.vocab_size:,}: the "
            "two files belong to different models."
        )
    model = bag_of_vectors(table, tokenizer)
    if (folder / MODULES).is_file():
        model.sentence = replace(declared_by(folder, role), max_length=None)
    else:
        config = read_json(folder / MODEL_CONFIG)
        model.sentence = SentenceSettings("mean", normalize=config.get("normalize") is True)
    return model


def _without_template(tokenizer: Tokenizer) -> Tokenizer:
    """A tokenizer that adds no special tokens."""
    content = json.loads(tokenizer.backend.to_str())
    return Tokenizer(Backend.from_str(json.dumps(content | {"post_processor": None})), tokenizer.config)


def bag_of_vectors(table: Tensor, tokenizer: Tokenizer) -> Model:
    """A network without layers whose embedding of a text is the mean of its tokens' rows of `table`, [vocab, size]."""
    vocab, size = table.shape
    network = replace(preset(PRESET, hidden_size=size, vocab_size=vocab), pad_token_id=tokenizer.pad_id)
    model = build(network)
    with torch.no_grad():
        model.word_embeddings.copy_(table)
    model.tokenizer, model.sentence = tokenizer, SentenceSettings("mean")
    return model.eval()


def _table(folder: Path, root: Path) -> Tensor:
    """The vector of each token: float32 [vocab, size]."""
    (path,) = weight_files(folder, root)
    try:
        with safe_open(path, framework="pt") as file:
            stored = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # not a mapping
    except (SafetensorError, OSError) as error:
        raise CorruptFileError(
            f"{path} is not a complete safetensors file ({error}): download or copy it again."
        ) from None
    name = next((one for one in TABLES if one in stored), None)
    if name is None or stored[name].dim() != 2:
        raise ModelFolderError(f"{path} has no table of token vectors ({' or '.join(TABLES)}).")
    table, mapping, weights = stored[name].float(), stored.get("mapping"), stored.get("weights")
    if mapping is not None:
        if mapping.dim() != 1 or not bool(((mapping >= 0) & (mapping < len(table))).all()):
            raise ModelFolderError(f"{path}: mapping names rows that the table of {len(table):,} does not have.")
        table = table[mapping.long()]
    if weights is not None:
        if weights.shape != table.shape[:1]:
            raise ModelFolderError(f"{path} has weights for {len(weights):,} tokens, and vectors for {len(table):,}.")
        table = table * weights.float()[:, None]
    return table
