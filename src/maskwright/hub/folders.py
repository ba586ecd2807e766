"""Loads and saves model folders in the Hugging Face layout, compatible with transformers in both directions."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import replace as replace_fields
from functools import partial
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from safetensors.torch import save as to_safetensors
from torch import Tensor

from .. import __version__
from ..core import registry, storage
from ..core.config import check
from ..core.errors import ModelFolderError
from ..core.registry import unknown_name
from ..core.storage import ADAPTER_CONFIG, EXPORTED, FACTS, RECORD, read_facts, verify_sealed
from ..models.adapters import SharedWeights, merge_adapter
from ..models.device import DTYPES
from ..models.encoder_decoder import EncoderDecoder
from ..models.model import Model, SentenceSettings
from ..text.tokenizers.tokenizer import Tokenizer
from ..text.tokenizers.tokenizer_files import MAIN_FILES
from ..text.tokenizers.tokenizer_files import TARGET as MARIAN_TARGET
from . import config_file, weights
from .adapters import FACT, adapter_files, has_own_tokenizer, is_adapter, load_adapter
from .adapters import FILE as ADAPTER_WEIGHTS
from .assemble import Checkpoint, LoadReport, assemble, plan_head
from .card import adapter_card, model_card, without_folders
from .config_file import GENERATION, read_config, write_config
from .download import find_folder
from .family import Family, family_for
from .published import is_short_name
from .sentence import (
    COLBERT_PROJECTION,
    MODULES,
    cross_encoder_files,
    declaration_files,
    declared_by,
    is_declared,
    keep_marks_whole,
    network_folder,
    own_roles,
    projection_of,
)
from .static_vectors import load_static, static_folder
from .weights import Weights, stored_names, to_rows

# Heads whose encoder may also make sentence embeddings; fine-tuning for a task changes it.
SENTENCE_HEADS = (None, "mlm", "pretraining")

__all__ = ["STORED", "LoadReport", "load_model", "read_facts", "save_model"]

INT8 = "int8"  # storage of weights, by rows
STORED = "stored"
TARGET_TOKENIZER = "target_tokenizer"  # subfolder of the target tokenizer, if separate


def load_model(
    name: str | Path,
    head: str | None = STORED,
    *,
    labels: Sequence[str] | int | None = None,
    problem_type: str | None = None,
    seed: int = 0,
    top: Mapping[str, Any] | None = None,
    adapter: str | None = None,
) -> tuple[Model, LoadReport]:
    """Load a model folder or a Hub model in evaluation mode, with its tokenizer if it has one.

    Weights are converted to float32. For a sentence-transformers folder, `.sentence` contains its declared settings.
    A folder with an adapter gives the base with the adapter on it; for another head than the stored one, the two are
    merged. An exported folder gives a model without weights, which its graph computes (`export.graph_model`).

    Args:
        name: Folder or Hub model ID.
        head: "stored" for the folder's head, a head name to add to the encoder, or None for the bare encoder (with a
            pooler if stored). A head that is not stored, or has other labels, is randomly initialized and reported.
        labels, problem_type: As in `build`; default: from the folder.
        seed: For random initialization.
        top: Settings between encoder and head (mix_layers, top_layers, top_embedding_size); None: from the folder.
        adapter: Of several that the weights file itself contains (jina-embeddings-v3), the name of the one to merge;
            its instruction becomes the default prompt.

    Raises:
        ConfigError: no such adapter.
        MissingFileError: no such folder.
        ModelFolderError: not a model, not supported, or config and weights disagree.
        CorruptFileError: a file is damaged.
    """
    folder, root = find_folder(name)
    if EXPORTED in read_facts(folder):
        if head != STORED or top:
            raise ModelFolderError(
                f"{folder} is an exported graph, without weights for training or another head: use the model that it "
                "was exported from."
            )
        exported: tuple[Model, LoadReport] = registry.resolve("model_loader", "exported")(folder, root)
        return exported
    if not is_adapter(folder):
        model, report = _load_whole(
            name, head, labels=labels, problem_type=problem_type, seed=seed, top=top, adapter=adapter
        )
        if head == STORED and not top:
            model.routes = {role: _load_whole(name, role=role)[0] for role in own_roles(folder)}
        return model, report
    check(adapter is None, f"{folder} is itself an adapter: choose none.")
    model, report = load_adapter(folder, root, _load_whole)
    if (folder / MODULES).is_file():
        is_encoder = model.head_name in SENTENCE_HEADS
        model.sentence = declared_by(folder) if is_encoder else None
        model.projection = projection_of(folder, root) if is_encoder else None
    facts = read_facts(folder)
    model.task_name, model.trained_length = facts.get("task"), _trained_length(facts)
    if head == STORED and not top:
        return model.train(False), report
    with TemporaryDirectory() as temporary:  # the merged model: its head and labels are treated as any other's
        whole = Path(temporary) / "model"
        save_model(merged(model), whole, facts={"task": model.task_name})
        return _load_whole(whole, head, labels=labels, problem_type=problem_type, seed=seed, top=top)


def merged(model: Model) -> Model:
    """Returns a model with its adapter merged into it, in place; other models are returned unchanged."""
    if model.adapter is not None:
        merge_adapter(model)
    return model


def _load_whole(
    name: str | Path,
    head: str | None = STORED,
    *,
    labels: Sequence[str] | int | None = None,
    problem_type: str | None = None,
    seed: int = 0,
    top: Mapping[str, Any] | None = None,
    shared: SharedWeights | None = None,
    role: str | None = None,
    adapter: str | None = None,
) -> tuple[Model, LoadReport]:
    """Load a whole model; see `load_model`. shared: see `assemble`; role: see `hub.sentence.modules_of`."""
    folder, root = find_folder(name)
    is_verified = is_short_name(name) or verify_sealed(folder, root=root)
    facts = read_facts(folder)
    if (table := static_folder(folder, role)) is not None:
        is_plain = head in (STORED, None) and not top and adapter is None
        check(is_plain, f"{folder} is a table of token vectors, which takes no head and no adapter.")
        model = load_static(folder, table, root, role)
        model.projection = projection_of(folder, root, role)
        return model, LoadReport([], [], [], is_verified=is_verified)
    declared = declared_by(folder, role) if is_declared(folder) else None
    projection, whole = projection_of(folder, root, role), folder
    folder = network_folder(folder, role)
    stored = read_config(folder, partial(stored_names, folder, root))
    if top:
        stored = replace_fields(stored, config=replace_fields(stored.config, **top))
    with Weights(folder, root) as file:
        values = {} if adapter is None else storage.read_json(folder / config_file.FILE)
        file.task = None if adapter is None else weights.task_of(values, adapter)
        checkpoint = Checkpoint(file, stored.family)
        if not stored.names_head:
            stored = replace_fields(stored, architecture=stored.family.predict_class(checkpoint.stored))
        if head == STORED:  # an encoder for embeddings may name a head that was never saved with it
            head = stored.head() if declared is None or checkpoint.has_head() else None
        plan = plan_head(stored, head, labels, checkpoint)
        model, report = assemble(stored.config, plan, checkpoint, problem_type, seed, shared)
        unused = [name for name in report.unused if name != COLBERT_PROJECTION or projection is None]
        report = replace_fields(report, is_verified=is_verified, unused=unused)
    if adapter is not None:
        report = replace_fields(report, unused=[one for one in report.unused if ".weight.0.lora_" not in one])
        declared = _instructed(declared or SentenceSettings(), values, adapter)
    if any((folder / file_name).is_file() for file_name in MAIN_FILES):
        model.tokenizer = _tokenizer(folder, stored.config.vocab_size)
        keep_marks_whole(whole, model.tokenizer)
    if isinstance(model, EncoderDecoder):
        model.target_tokenizer = target_tokenizer(folder, stored.config.target_vocab_size)
    if model.head_name in SENTENCE_HEADS:
        if declared is not None and model.head_name is None:
            declared = replace_fields(declared, sparse=None)  # which are made of the head's logits
        model.sentence, model.projection = declared, projection
    model.task_name, model.trained_length = facts.get("task"), _trained_length(facts)
    return model.train(False), report


def _instructed(declared: SentenceSettings, values: Mapping[str, Any], adapter: str) -> SentenceSettings:
    """With the instruction of the adapter as the default prompt: of the folder's prompts, else of config.json."""
    given = values.get(weights.INSTRUCTIONS)
    prompts = {**(given if isinstance(given, dict) else {}), **declared.prompts}
    default = adapter if isinstance(prompts.get(adapter), str) else None
    kept = {name: text for name, text in prompts.items() if isinstance(text, str)}
    return replace_fields(declared, prompts=kept, default_prompt=default)


def target_tokenizer(folder: Path, vocab_size: int) -> Tokenizer | None:
    """Returns the separate tokenizer of the targets of a folder; None without one."""
    own = next((path for path in (folder / TARGET_TOKENIZER, folder / MARIAN_TARGET) if path.exists()), None)
    return None if own is None else _tokenizer(own, vocab_size)


def save_model(
    model: Model,
    folder: str | Path,
    *,
    facts: Mapping[str, Any] | None = None,
    replace: bool = False,
    weights_as: str | None = None,
) -> None:
    """Write a model folder: config.json, model.safetensors, tokenizer files, maskwright.json, README.md, manifest.

    A model with an adapter becomes an adapter folder (adapter_config.json, adapter_model.safetensors) without the base.
    An encoder without a head, or with a pre-training head, keeps its sentence-embedding settings. The folder appears
    atomically.

    Args:
        facts: Metadata for maskwright.json besides format, versions, head and labels (task, training settings, ...).
        replace: Overwrite an existing folder.
        weights_as: "fp16" or "bf16" (half the size), "int8" (a quarter, a scale per row, see `hub.weights`; only
            Maskwright reads it; not for adapters) or "fp32"; None: keep the dtype. Weights always load as float32.

    Raises:
        RunError: the folder exists and is not empty, unless `replace`.
        ConfigError: unknown `weights_as`, or weights too large for it.
    """
    check(model.graph_precision is None, "An exported graph has no weights to save: copy its folder.")
    check(not model.routes, "A model with a network for queries of its own cannot be written: copy its folder.")
    is_int8 = weights_as == INT8
    if model.adapter is not None:
        check(not is_int8, "An adapter cannot be stored as int8: use fp16 or bf16.")
        stored_as = _storage(model, weights_as)
        _save_adapter(model, Path(folder), _problem_type(model, facts or {}), facts or {}, replace, stored_as)
        return
    stored_as = _storage(model, "fp32" if is_int8 else weights_as)
    family = family_for(model.config, model.head_name)
    all_facts = _facts(model, facts or {})
    files = description_files(model, facts or {}, str(stored_as).removeprefix("torch."))
    tensors = {name: tensor.to(stored_as) for name, tensor in _their_tensors(model, family).items()}
    if is_int8:
        tensors = to_rows(tensors)
    tensors |= family.stored_constants(model.config, model.head_name)
    with storage.new_folder(folder, replace=replace) as new:
        storage.write_bytes(new / weights.FILE, to_safetensors(tensors, metadata={"format": "pt"}))
        write_files(new, files)
        storage.write_json(new / FACTS, all_facts)
        storage.write_text(new / "README.md", model_card(model, all_facts, family, is_int8=is_int8))


def description_files(model: Model, facts: Mapping[str, Any], dtype: str) -> dict[str, Any]:
    """Returns the files that describe a whole model in addition to its weights: configuration, tokenizer, start and
    end tokens, and sentence-embedding settings, by relative path; bytes, or the content of a JSON file.

    facts: see `save_model`; dtype: of the weights, as in "float32".
    """
    family = family_for(model.config, model.head_name)
    problem_type, ids = _problem_type(model, facts), _generation_ids(model)
    config = write_config(family, model.config, model.head_name, model.labels, problem_type, dtype)
    files: dict[str, Any] = {config_file.FILE: {**ids, **config}}  # the model's own values take precedence
    return files | _tokenizer_files(model) | ({GENERATION: ids} if ids else {}) | _declaration(model, facts)


def write_files(folder: Path, files: Mapping[str, Any]) -> None:
    """Write files into a new folder: bytes as they are, other content as JSON."""
    for name, content in files.items():
        path = storage.inside(folder, name)
        storage.write_bytes(path, content) if isinstance(content, bytes) else storage.write_json(path, content)


def _save_adapter(
    model: Model, folder: Path, problem_type: str | None, facts: Mapping[str, Any], replace: bool, dtype: torch.dtype
) -> None:
    """Write an adapter folder; the tokenizer only if it differs from the base's. dtype: of its tensors."""
    found = adapter_files(model, folder, problem_type)
    all_facts = _facts(model, {**facts, FACT: found.fact})
    tokenizer = _tokenizer_files(model) if has_own_tokenizer(model) else {}
    tensors = {name: tensor.to(dtype) for name, tensor in found.tensors.items()}
    with storage.new_folder(folder, replace=replace) as new:
        storage.write_json(new / ADAPTER_CONFIG, found.config)
        storage.write_bytes(new / ADAPTER_WEIGHTS, to_safetensors(tensors, metadata={"format": "pt"}))
        for name, data in tokenizer.items():
            storage.write_bytes(storage.inside(new, name), data)
        write_files(new, _declaration(model, facts))
        storage.write_json(new / FACTS, all_facts)
        storage.write_text(
            new / "README.md", adapter_card(model, all_facts, str(found.config["base_model_name_or_path"]))
        )


def complete_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the content of a new maskwright.json: `facts`, the format and the library versions."""
    packages = {name: metadata.version(name) for name in ("torch", "safetensors", "tokenizers")}
    versions = {"python": platform.python_version(), "maskwright": __version__, **packages}
    return {"format": 1, "version": __version__} | dict(facts) | RECORD | {"versions": versions}


def _their_tensors(model: Model, family: Family) -> dict[str, Tensor]:
    """Returns the parameters under the family's names. A tied decoder weight is not stored; its bias is, once."""
    tensors: dict[str, Tensor] = {}
    head = model.head_name
    for name, parameter in model.named_parameters():
        if name.startswith("projection."):
            continue  # in the folders of its modules
        tensors |= family.to_stored(name, parameter.detach().cpu(), head)
    names = family.decoder(head)
    weight, own, other = names if names is not None else ("", None, None)
    if weight in tensors and own is not None and other is not None and own != other:
        tensors[own] = tensors[other].clone()  # untied decoders store their own bias; ours is shared
    if family.decoder_embeddings is not None and model.config.decoder_vocab_size is not None:
        prefix = family.prefix if head is not None else ""
        tensors[prefix + family.decoder_embeddings] = tensors.pop(prefix + family.words)
    return tensors


def _storage(model: Model, weights_as: str | None) -> torch.dtype:
    """The dtype of the weights in a folder. Raises ConfigError for an unknown one and for numbers too large for it."""
    if weights_as is None:
        return model.word_embeddings.dtype
    check(weights_as in DTYPES, unknown_name("format of weights", weights_as, (*DTYPES, INT8)))
    dtype = DTYPES[weights_as]
    largest = max(float(parameter.detach().abs().max()) for parameter in model.parameters() if parameter.numel())
    check(
        largest <= torch.finfo(dtype).max,
        f"A weight of {largest:.3g} does not fit into {weights_as}, whose largest is {torch.finfo(dtype).max:,.0f}: "
        "store them as bf16.",
    )
    return dtype


def _tokenizer_files(model: Model) -> dict[str, bytes]:
    """Returns the tokenizer files; a separate target tokenizer is in a subfolder (Marian files contain both)."""
    files = dict(model.tokenizer.files()) if model.tokenizer is not None else {}
    if isinstance(model, EncoderDecoder) and model.target_tokenizer is not None and MARIAN_TARGET not in files:
        files |= {f"{TARGET_TOKENIZER}/{name}": data for name, data in model.target_tokenizer.files().items()}
    return files


def _generation_ids(model: Model) -> dict[str, int | None]:
    """Returns the start, end and padding token IDs of a generative model, by transformers' names."""
    if isinstance(model, EncoderDecoder):
        config = model.config
        names = ("decoder_start_token_id", "eos_token_id", "forced_eos_token_id")
        ids = {name: getattr(config, name) for name in names}
        return {**ids, "pad_token_id": config.pad_token_id} if model.head_name is not None else {}
    if model.head_name != "clm":
        return {}
    begin, end = (None, None) if model.tokenizer is None else (model.tokenizer.bos_id, model.tokenizer.eos_id)
    return {"bos_token_id": begin, "eos_token_id": end, "pad_token_id": model.config.pad_token_id}


def _declaration(model: Model, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the sentence-transformers files of an encoder with such settings, or of a cross-encoder."""
    if model.head_name == "regression" and facts.get("scale"):
        return cross_encoder_files(_trained_length(facts) or model.config.max_position_embeddings)
    if model.sentence is None or model.head_name not in SENTENCE_HEADS:
        return {}
    config = model.config
    return declaration_files(model.sentence, config.hidden_size, config.max_position_embeddings, model.projection)


def _problem_type(model: Model, facts: Mapping[str, Any]) -> str | None:
    """Returns problem_type for config.json from the head, else from the facts of a finished task."""
    if not model.labels or model.problem_type is not None or "multi_label" not in facts:
        return model.problem_type
    return "multi_label_classification" if facts["multi_label"] else "single_label_classification"


def _facts(model: Model, facts: Mapping[str, Any]) -> dict[str, Any]:
    own: dict[str, Any] = {"head": model.head_name}
    if model.labels:
        own["labels"] = list(model.labels)
    training = {"training": without_folders(facts["training"])} if "training" in facts else {}
    return complete_facts(own | dict(facts) | training)


def _trained_length(facts: Mapping[str, Any]) -> int | None:
    """Returns the max_length of fine-tuning, else of pre-training, if maskwright.json has it."""
    training = facts.get("training")
    length = facts.get("max_length") or (training.get("max_length") if isinstance(training, dict) else None)
    return length if isinstance(length, int) and not isinstance(length, bool) and length > 2 else None


def _tokenizer(folder: Path, vocab_size: int) -> Tokenizer:
    tokenizer = Tokenizer.load(folder)
    if tokenizer.vocab_size > vocab_size:
        raise ModelFolderError(
            f"{folder}: the tokenizer has {tokenizer.vocab_size:,} tokens, but the model has embeddings for "
            f"{vocab_size:,}: they do not belong together."
        )
    return tokenizer


# -- Updates maskwright.json in a model folder without changing other files ------------------------------------------


def copy_with_facts(source: Path, target: Path, facts: Mapping[str, Any]) -> None:
    """Copy the folder `source` to `target` with maskwright.json updated by `facts`.

    If `target` is `source`, the folder is replaced atomically. Raises CorruptFileError if `source` does not match its
    manifest, RunError if a different `target` exists and is not empty.
    """
    verify_sealed(source)
    known = read_facts(source)
    names = sorted(path.relative_to(source).as_posix() for path in source.rglob("*") if path.is_file())
    with storage.new_folder(target, replace=target.resolve() == source.resolve()) as new:
        for name in names:
            if name not in (FACTS, storage.MANIFEST):
                storage.write_bytes(new / name, storage.read_bytes(source / name))
        storage.write_json(new / FACTS, complete_facts(known | dict(facts)))
