"""Model folders in the Hugging Face layout: what transformers writes loads here, what is written here loads there."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import replace as replace_fields
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save as to_safetensors
from torch import Tensor

from ..core import storage
from ..core.errors import CorruptFileError, ModelFolderError
from ..models.encoder_decoder import EncoderDecoder
from ..models.model import Model
from ..text.marian_files import TARGET as MARIAN_TARGET
from ..text.tokenizer import Tokenizer
from ..text.tokenizer_files import MAIN_FILES
from . import config_file, weights
from .assemble import Checkpoint, LoadReport, assemble, plan_head
from .card import model_card
from .config_file import read_config, write_config
from .download import find_folder
from .family import Family, family_for
from .sentence import MODULES, declaration_files, declared_by, network_folder
from .weights import Weights

__all__ = ["STORED", "LoadReport", "load_model", "read_facts", "save_model", "verify"]

FACTS = "maskwright.json"
GENERATION = "generation_config.json"
STORED = "stored"
TARGET_TOKENIZER = "target_tokenizer"  # the folder of a second tokenizer, where each side has its own


def load_model(
    name: str | Path,
    head: str | None = STORED,
    *,
    labels: Sequence[str] | int | None = None,
    problem_type: str | None = None,
    seed: int = 0,
    top: Mapping[str, Any] | None = None,
) -> tuple[Model, LoadReport]:
    """Load a model folder, or a model of the hub by name, in evaluation mode, with its tokenizer if it has one.

    head: "stored" for the one in the folder, a head's name to put that one on the encoder, None for the bare encoder
    (with a pooler if the folder has one); labels, problem_type: as `build` takes them, default those of the folder. A
    head that the folder does not hold, or holds for other labels, is drawn from `seed`, and the report names it;
    top: settings of what stands between encoder and head (mix_layers, top_layers, top_embedding_size), None for those
    of the folder.
    Weights become float32. Of a sentence-transformers folder the network is loaded; `.sentence` holds what it declares.
    Raises MissingFileError, ModelFolderError (no model, not supported, config and weights that disagree) or
    CorruptFileError.
    """
    folder, root = find_folder(name)
    verify(folder)
    facts = read_facts(folder)
    declared = declared_by(folder) if (folder / MODULES).is_file() else None
    folder = network_folder(folder)
    stored = read_config(folder)
    if top:
        stored = replace_fields(stored, config=replace_fields(stored.config, **top))
    with Weights(folder, root) as file:
        checkpoint = Checkpoint(file, stored.family)
        if stored.architecture is None:
            stored = replace_fields(stored, architecture=stored.family.guess_class(checkpoint.stored))
        plan = plan_head(stored, stored.head() if head == STORED else head, labels, checkpoint)
        model, report = assemble(stored.config, plan, checkpoint, problem_type, seed)
    if any((folder / file_name).is_file() for file_name in MAIN_FILES):
        model.tokenizer = _tokenizer(folder, stored.config.vocab_size)
    if isinstance(model, EncoderDecoder):
        own = next((path for path in (folder / TARGET_TOKENIZER, folder / MARIAN_TARGET) if path.exists()), None)
        if own is not None:
            model.target_tokenizer = _tokenizer(own, stored.config.target_vocab_size)
    model.sentence = declared if model.head_name is None else None
    model.task_name, model.trained_length = facts.get("task"), _trained_length(facts)
    return model.train(False), report


def save_model(
    model: Model, folder: str | Path, *, facts: Mapping[str, Any] | None = None, replace: bool = False
) -> None:
    """Write a model folder: config.json, model.safetensors, tokenizer files, maskwright.json, README.md, manifest.

    A bare encoder that came from a sentence-transformers folder keeps its declaration.

    facts: what maskwright.json should say beyond format, versions, head and labels: task, training, and so on. The
    folder appears complete or not at all. Raises RunError when it exists and is not empty, unless `replace`.
    """
    problem_type = _problem_type(model, facts or {})
    dtype = str(model.word_embeddings.dtype).removeprefix("torch.")
    family = family_for(model.config, model.head_name)
    config = write_config(family, model.config, model.head_name, model.labels, problem_type, dtype)
    ids = _growing_ids(model)
    config = {**ids, **config}  # what the network itself says of them counts
    all_facts = _facts(model, facts or {})
    files = _tokenizer_files(model)
    with storage.new_folder(folder, replace=replace) as new:
        storage.write_json(new / config_file.FILE, config)
        storage.write_bytes(
            new / weights.FILE, to_safetensors(_their_tensors(model, family), metadata={"format": "pt"})
        )
        for name, data in files.items():
            storage.write_bytes(storage.inside(new, name), data)
        if ids:
            storage.write_json(new / GENERATION, ids)
        for name, content in _declaration(model).items():
            storage.write_json(new / name, content)
        storage.write_json(new / FACTS, all_facts)
        storage.write_text(new / "README.md", model_card(model, all_facts, family))


def read_facts(folder: str | Path) -> dict[str, Any]:
    """The content of maskwright.json; empty for a folder that something else wrote. Raises CorruptFileError."""
    path = Path(folder) / FACTS
    if not path.is_file():
        return {}
    facts = storage.read_json(path)
    if not isinstance(facts, dict):
        raise CorruptFileError(f"{path} is not a JSON object: restore it from a copy.")
    return facts


def complete_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a new maskwright.json: `facts`, the format, and the versions that wrote it."""
    packages = ("maskwright", "torch", "safetensors", "tokenizers")
    versions = {"python": platform.python_version(), **{name: metadata.version(name) for name in packages}}
    return {"format": 1, "version": versions["maskwright"]} | dict(facts) | {"versions": versions}


def verify(folder: Path) -> None:
    """Compare a folder that we wrote with its manifest. Raises CorruptFileError naming the file that changed."""
    if (folder / FACTS).is_file():
        storage.verify_folder(folder)


def _their_tensors(model: Model, family: Family) -> dict[str, Tensor]:
    """The parameters under the family's names. A tied decoder is not stored; its bias is, once."""
    tensors: dict[str, Tensor] = {}
    head = model.head_name
    for name, parameter in model.named_parameters():
        theirs = family.stored_names(name, head)
        whole = parameter.detach().cpu()
        whole = whole.T if family.is_turned(name) else whole.view(family.stored_shape(name, tuple(whole.shape)))
        parts = whole.chunk(len(theirs))
        tensors |= {
            key: part.clone(memory_format=torch.contiguous_format) for key, part in zip(theirs, parts, strict=True)
        }
    names = family.decoder(head)
    weight, own, other = names if names is not None else ("", None, None)
    if weight in tensors and own is not None and other is not None and own != other:
        tensors[own] = tensors[other].clone()  # an untied decoder has a bias of its own there; ours is both
    if family.own_words is not None and model.config.decoder_vocab_size is not None:
        prefix = family.prefix if head is not None else ""
        tensors[prefix + family.own_words] = tensors.pop(prefix + family.words)
    return tensors


def _tokenizer_files(model: Model) -> dict[str, bytes]:
    """The files of the tokenizer, and in a folder of its own those of a second one; Marian's hold both sides."""
    files = dict(model.tokenizer.files()) if model.tokenizer is not None else {}
    if isinstance(model, EncoderDecoder) and model.target_tokenizer is not None and MARIAN_TARGET not in files:
        files |= {f"{TARGET_TOKENIZER}/{name}": data for name, data in model.target_tokenizer.files().items()}
    return files


def _growing_ids(model: Model) -> dict[str, int | None]:
    """For a model that writes: the ids of the tokens that begin, end and fill up texts, under transformers' names."""
    if isinstance(model, EncoderDecoder):
        config = model.config
        ids = {"decoder_start_token_id": config.decoder_start_token_id, "eos_token_id": config.eos_token_id}
        return {**ids, "pad_token_id": config.pad_token_id} if model.head_name is not None else {}
    if model.head_name != "clm":
        return {}
    begin, end = (None, None) if model.tokenizer is None else (model.tokenizer.bos_id, model.tokenizer.eos_id)
    return {"bos_token_id": begin, "eos_token_id": end, "pad_token_id": model.config.pad_token_id}


def _declaration(model: Model) -> dict[str, Any]:
    """The sentence-transformers files of a bare encoder that was loaded with such a declaration."""
    if model.sentence is None or model.head_name is not None:
        return {}
    return declaration_files(model.sentence, model.config.hidden_size, model.config.max_position_embeddings)


def _problem_type(model: Model, facts: Mapping[str, Any]) -> str | None:
    """What the outputs mean, for config.json: as the head says, else as the facts of a finished task imply."""
    if not model.labels or model.problem_type is not None or "multi_label" not in facts:
        return model.problem_type
    return "multi_label_classification" if facts["multi_label"] else "single_label_classification"


def _facts(model: Model, facts: Mapping[str, Any]) -> dict[str, Any]:
    own: dict[str, Any] = {"head": model.head_name}
    if model.labels:
        own["labels"] = list(model.labels)
    return complete_facts(own | dict(facts))


def _trained_length(facts: Mapping[str, Any]) -> int | None:
    """The max_length of the fine-tuning or else of the pre-training, where maskwright.json says it."""
    training = facts.get("training")
    length = facts.get("max_length") or (training.get("max_length") if isinstance(training, dict) else None)
    return length if isinstance(length, int) and not isinstance(length, bool) and length > 2 else None


def _tokenizer(folder: Path, vocab_size: int) -> Tokenizer:
    tokenizer = Tokenizer.load(folder)
    if tokenizer.vocab_size > vocab_size:
        raise ModelFolderError(
            f"{folder}: the tokenizer knows {tokenizer.vocab_size:,} tokens, the model has vectors for {vocab_size:,}: "
            "they do not belong together."
        )
    return tokenizer
