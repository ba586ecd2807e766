"""Reads transformers' `config.json` as a ModelConfig and a head, and writes it.

The setting names of each family are in its table (`hub.families`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ..core import storage
from ..core.errors import ConfigError, ModelFolderError
from ..core.progress import note
from ..core.registry import nearest
from ..core.storage import is_model_folder
from ..models.config import ModelConfig
from ..models.heads import PROBLEM_TYPES
from .family import Family, families, family_named
from .weights import stored_names

# -- Infers the family of a config.json without `model_type`, as in folders from before November 2019 ----------------
#
# The class in `architectures` decides, else the tensor names. Names that fit several families with different
# architectures are an error.


def infer_family(path: Path, values: Mapping[str, Any], names: Callable[[], Iterable[str]]) -> Family:
    """Infer the family of the config.json at `path` with content `values`, and log it with the reason.

    names: returns the stored tensor names; called only if `architectures` does not decide. Raises ModelFolderError if
    no family fits, or several do.
    """
    published = [family_named(name) for name in families() if family_named(name).encoder]
    classes = values.get("architectures")
    for family in published:
        if isinstance(classes, list) and classes and classes[0] in family.classes:
            return _noted(path, family, f"architectures ({classes[0]})")
    fitting = _fitting(published, list(names()))
    if not fitting:
        raise ModelFolderError(
            f"{path} has no model_type, and neither its architectures nor its weights match a supported family "
            f"({', '.join(families())}): add the model_type."
        )
    found = _settled({family.model_type for family in fitting}, values)
    if found is None:
        known = ", ".join(family.model_type for family in fitting)
        raise ModelFolderError(
            f"{path} has no model_type, and its weights match several families ({known}): add the right model_type."
        )
    return _noted(path, family_named(found), "weights' names")


def _noted(path: Path, family: Family, reason: str) -> Family:
    note(f"{path} has no model_type: read as {family.model_type} ({family.title}), inferred from its {reason}.")
    return family


_LANGUAGE = re.compile(r"\.adapter_modules\.([^.]+)\.")


def _fitting(published: list[Family], names: list[str]) -> list[Family]:
    """Families whose embeddings, norms and first layer are all present; prefix matches first, then most names."""
    fits = []
    for family in published:
        found = {part for name in names for part in family.parts(name)}
        languages = (match[1] for match in map(_LANGUAGE.search, found) if match)
        wanted = _first_names(family, next(languages, ""))
        if found.issuperset(wanted):
            has_prefix = any(name.startswith(family.prefix) for name in names)
            fits.append(((has_prefix, len(wanted)), family))
    most = max((rank for rank, _ in fits), default=None)
    return [family for rank, family in fits if rank == most]


def _first_names(family: Family, language: str) -> list[str]:
    """Names without prefix in every checkpoint of a family: word embeddings, their norm, and layer 0.

    language: that of adapters for languages (X-MOD).
    """
    table = dict(family.encoder)
    if not family.fixed.get("first_norm", True):
        del table["layers.{i}.attention_norm.{p}"]
    if not (family.defaults | family.fixed).get("embedding_norm", True):
        table.pop("embeddings.norm.{p}", None)
    kept = ("embeddings.word.weight", "embeddings.norm.{p}")
    table = {ours: row for ours, row in table.items() if ".relative." not in ours and ".adapter_norm." not in ours}
    names = [ours for ours in table if ours in kept or ours.startswith("layers.")]
    rows = [table[ours] for ours in names]
    return [name.format(i=0, k=0, l=language, p="weight") for row in rows for name in row]


def _settled(types: set[str], values: Mapping[str, Any]) -> str | None:
    """Distinguish families with the same tensor names by settings that only one of them has; None if undecided."""
    if len(types) == 1:
        return next(iter(types))
    for model_type, setting in (("big_bird", "attention_type"), ("electra", "embedding_size")):
        if model_type in types and setting in values:
            return model_type
    if types == {"roberta", "xlm-roberta", "camembert"}:  # same architecture
        return "roberta"
    # RoBERTa has one segment, padding token 1, and a position offset.
    segments = values.get("type_vocab_size", 2)
    may_be_roberta = "roberta" in types and (segments == 1 or values.get("pad_token_id", 0) != 0)
    return "bert" if "bert" in types and not may_be_roberta else None


FILE, GENERATION = "config.json", "generation_config.json"
MOST_LABELS = 100_000
_FORCED_END = "forced_eos_token_id"
# Settings of networks with code outside transformers -> the family of transformers that computes them, and the stems
# of the class names in both.
_JINA = {"model_type": "xlm-roberta", "position_embedding_type": "rotary"}
AS_PUBLISHED = (
    ({"model_type": "new"}, "gte", "New", "Gte"),
    (_JINA, "jina_embeddings_v3", "XLMRoberta", "JinaEmbeddingsV3"),
)


@dataclass(frozen=True)
class FolderConfig:
    """Parsed config.json.

    family: model format; architecture: transformers class name, or None; labels: output label names, () if not set.
    """

    family: Family
    config: ModelConfig
    architecture: str | None
    labels: tuple[str, ...]
    problem_type: str | None

    @property
    def names_head(self) -> bool:
        """Whether the architecture tells the head: a class of other code (AntiBERTy) does not, its tensors do."""
        return re.search(r"For[A-Z]|Model\b", self.architecture or "") is not None

    def head(self) -> str | None:
        """Our head name. Raises ModelFolderError for an architecture with an unsupported head."""
        classes = self.family.classes
        if self.architecture not in classes:
            heads = dict.fromkeys(head for head in classes.values() if head)
            raise ModelFolderError(
                f"The folder contains a {self.architecture}, whose head is not supported. Specify another head to put "
                f"on its encoder ({', '.join(heads)}). Supported: {', '.join(classes)}."
            )
        return self.head_or_none()

    def head_or_none(self) -> str | None:
        """Our head name; None for a bare encoder or an unsupported head."""
        head = self.family.classes.get(self.architecture or "")
        is_regression = self.problem_type == "regression" or (self.problem_type is None and len(self.labels) == 1)
        return "regression" if head == "classification" and is_regression else head


def read_config(folder: Path, names: Callable[[], Iterable[str]] | None = None) -> FolderConfig:
    """Read and validate config.json. Custom code named in `auto_map` is never run.

    Args:
        folder: Model folder.
        names: Returns the stored tensor names, used to infer a missing model_type; default: read from safetensors.

    Raises:
        ModelFolderError: config.json is missing, or its model type, settings or sizes are not supported.
    """
    path = folder / FILE
    if not path.is_file():
        raise ModelFolderError(_not_a_model(folder))
    values = storage.read_json(path)
    if not isinstance(values, dict):
        raise ModelFolderError(f"{path} is not a JSON object, so this is not a model folder.")
    values = _as_published(values)
    family = _family(path, values, names or partial(stored_names, folder))
    if _FORCED_END in family.names and (folder / GENERATION).is_file():  # which then counts, as in transformers
        generation = storage.read_json(folder / GENERATION)
        values |= {_FORCED_END: generation.get(_FORCED_END) if isinstance(generation, dict) else None}
    try:
        config = ModelConfig(**family.to_ours(values))
    except ConfigError as error:
        raise ModelFolderError(f"{path}: {error}") from None
    problem_type = values.get("problem_type")
    if problem_type not in (None, *PROBLEM_TYPES):
        raise ModelFolderError(f"{path}: problem_type is {problem_type!r}; use one of {', '.join(PROBLEM_TYPES)}.")
    architecture = _architecture(path, values)
    _check_direction(path, family, config, architecture)
    for head, understood in family.head_understood.items():
        if architecture is None or family.classes.get(architecture) == head:
            _check_understood(path, values, understood)
    return FolderConfig(family.sized(config), config, architecture, _labels(path, values), problem_type)


def write_config(
    family: Family, config: ModelConfig, head: str | None, labels: tuple[str, ...], problem_type: str | None, dtype: str
) -> dict[str, Any]:
    """Returns the content of config.json in transformers' format. family: must describe the model."""
    values: dict[str, Any] = {"architectures": [family.class_of(head)], "model_type": family.model_type}
    values |= family.to_theirs(config)
    values["dtype"] = dtype
    if labels:
        values["id2label"] = {str(index): label for index, label in enumerate(labels)}
        values["label2id"] = {label: index for index, label in enumerate(labels)}
        values["problem_type"] = problem_type
    return values


def _as_published(values: dict[str, Any]) -> dict[str, Any]:
    """Returns a config.json with the model type and class of the family that computes it."""
    for settings, model_type, own, theirs in AS_PUBLISHED:
        if all(values.get(name) == value for name, value in settings.items()):
            classes = values.get("architectures")
            named = [str(one).replace(own, theirs, 1) for one in classes] if isinstance(classes, list) else classes
            return values | {"model_type": model_type, "architectures": named}
    return values


def _family(path: Path, values: dict[str, Any], names: Callable[[], Iterable[str]]) -> Family:
    """Returns the family of a config.json after checking that all settings affecting the computation are supported."""
    model_type = values.get("model_type")
    if model_type is None:
        family = infer_family(path, values, names)
    elif isinstance(model_type, str) and model_type in families():
        family = family_named(model_type)
    else:
        near = nearest(str(model_type), families())
        hint = f" (did you mean '{near}'?)" if near else ""
        code = ", and its auto_map names code, which is never run" if "auto_map" in values else ""
        raise ModelFolderError(f"{path} has model_type '{model_type}'{hint}{code}; supported: {', '.join(families())}.")
    _check_understood(path, values, family.understood)
    return family


def _check_understood(path: Path, values: dict[str, Any], settings: Mapping[str, Sequence[Any]]) -> None:
    for name, understood in settings.items():
        if name in values and values[name] not in understood:
            raise ModelFolderError(f"{path}: {name} is {values[name]!r}, which is not supported.")


def _architecture(path: Path, values: dict[str, Any]) -> str | None:
    names = values.get("architectures")
    if not names:
        return None
    if not isinstance(names, list) or not isinstance(names[0], str):
        raise ModelFolderError(f"{path}: architectures must be a list of class names, not {names!r}.")
    return names[0]


def _check_direction(path: Path, family: Family, config: ModelConfig, architecture: str | None) -> None:
    """Check is_decoder: for most families only the causal LM class is causal, and it always is."""
    decoder = family.class_of("clm")
    if not family.encoder or decoder is None or family.is_causal:
        return
    if config.pools_last_token and architecture != decoder:
        raise ModelFolderError(f"{path}: is_decoder is true, which is only supported for {decoder}.")
    if architecture == decoder and not config.pools_last_token:
        raise ModelFolderError(f"{path}: a {decoder} is a causal language model, so is_decoder must be true.")


def _labels(path: Path, values: dict[str, Any]) -> tuple[str, ...]:
    """Returns label names by index from id2label, label2id or num_labels."""
    by_id, by_label = values.get("id2label"), values.get("label2id")
    if not by_id and isinstance(by_label, dict):
        by_id = {index: label for label, index in by_label.items()}
    if not by_id:
        count = values.get("num_labels")
        count = count if isinstance(count, int) and 0 < count <= MOST_LABELS else 0
        return tuple(f"LABEL_{index}" for index in range(count))
    try:
        names = {int(index): str(label) for index, label in by_id.items()}
    except (AttributeError, TypeError, ValueError):
        names = {}
    if sorted(names) != list(range(len(names))) or not 0 < len(names) <= MOST_LABELS:
        raise ModelFolderError(f"{path}: id2label must have consecutive indices starting at 0.")
    return tuple(names[index] for index in range(len(names)))


def _not_a_model(folder: Path) -> str:
    """Explain why `folder` is not a model folder, and suggest the folder probably intended."""
    if is_model_folder(folder / "model"):
        return f"{folder} is not a model folder, but {folder / 'model'} is: use that one."
    return f"{folder} is not a model folder: it has no {FILE}."
