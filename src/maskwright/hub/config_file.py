"""`config.json` in transformers' names: read into a ModelConfig and a head, and written back.

The names of each family stand in its table (`hub.families`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core import storage
from ..core.errors import ConfigError, ModelFolderError
from ..models.config import ModelConfig
from ..models.losses import PROBLEM_TYPES
from .family import Family, families, family_named

FILE = "config.json"
MOST_LABELS = 100_000


@dataclass(frozen=True)
class FolderConfig:
    """What config.json says.

    family: whose format it is; architecture: transformers' class name, or None; labels: names of the outputs, () where
    none are given.
    """

    family: Family
    config: ModelConfig
    architecture: str | None
    labels: tuple[str, ...]
    problem_type: str | None

    def head(self) -> str | None:
        """Our name of the head. Raises ModelFolderError for a class whose head is not ours."""
        classes = self.family.classes
        if self.architecture not in classes:
            heads = dict.fromkeys(head for head in classes.values() if head)
            raise ModelFolderError(
                f"The folder holds a {self.architecture}, whose head is not supported: name another to put on its "
                f"encoder ({', '.join(heads)}). Supported: {', '.join(classes)}."
            )
        return self.head_or_none()

    def head_or_none(self) -> str | None:
        """Our name of the head, None for a bare encoder and for a head that is not ours."""
        head = self.family.classes.get(self.architecture or "")
        return "regression" if head == "classification" and self._is_regression() else head

    def _is_regression(self) -> bool:
        return self.problem_type == "regression" or (self.problem_type is None and len(self.labels) == 1)


def read_config(folder: Path) -> FolderConfig:
    """Read and check config.json. Code that it may name (`auto_map`) is never run.

    Raises ModelFolderError: no config.json, another model type, settings that we do not compute, absurd sizes.
    """
    path = folder / FILE
    if not path.is_file():
        raise ModelFolderError(_not_a_model(folder))
    values = storage.read_json(path)
    if not isinstance(values, dict):
        raise ModelFolderError(f"{path} is not a JSON object: this is no model folder.")
    family = _family(path, values)
    try:
        config = ModelConfig(**family.to_ours(values))
    except ConfigError as error:
        raise ModelFolderError(f"{path}: {error}") from None
    problem_type = values.get("problem_type")
    if problem_type not in (None, *PROBLEM_TYPES):
        raise ModelFolderError(
            f"{path}: problem_type is {problem_type!r}; it must be one of {', '.join(PROBLEM_TYPES)}."
        )
    architecture = _architecture(path, values)
    _check_direction(path, family, config, architecture)
    return FolderConfig(family, config, architecture, _labels(path, values), problem_type)


def write_config(
    family: Family,
    config: ModelConfig,
    head: str | None,
    labels: tuple[str, ...],
    problem_type: str | None,
    dtype: str,
) -> dict[str, Any]:
    """The content of config.json, as transformers reads it. family: one that describes the model."""
    values: dict[str, Any] = {"architectures": [family.class_of(head)], "model_type": family.model_type}
    values |= family.to_theirs(config)
    values["dtype"] = dtype
    if labels:
        values["id2label"] = {str(index): label for index, label in enumerate(labels)}
        values["label2id"] = {label: index for index, label in enumerate(labels)}
        values["problem_type"] = problem_type
    return values


def _family(path: Path, values: dict[str, Any]) -> Family:
    """The family of a config.json, if its other settings are such that we compute what it describes."""
    model_type = values.get("model_type")
    if not isinstance(model_type, str) or model_type not in families():
        named = f"a model of type '{model_type}'" if model_type else "a model without a model_type"
        raise ModelFolderError(f"{path} describes {named}; supported: {', '.join(families())}.")
    family = family_named(model_type)
    for name, understood in family.understood.items():
        if name in values and values[name] not in understood:
            raise ModelFolderError(f"{path}: {name} is {values[name]!r}, which is not supported.")
    return family


def _architecture(path: Path, values: dict[str, Any]) -> str | None:
    names = values.get("architectures")
    if not names:
        return None
    if not isinstance(names, list) or not isinstance(names[0], str):
        raise ModelFolderError(f"{path}: architectures must be a list of class names, not {names!r}.")
    return names[0]


def _check_direction(path: Path, family: Family, config: ModelConfig, architecture: str | None) -> None:
    """Of most published networks only the class that guesses next tokens is causal, and it always is."""
    decoder = family.class_of("clm")
    if not family.encoder or decoder is None or family.is_causal:
        return
    if config.judges_last and architecture != decoder:
        raise ModelFolderError(f"{path}: is_decoder is true, which is supported for {decoder} alone.")
    if architecture == decoder and not config.judges_last:
        raise ModelFolderError(f"{path}: a {decoder} guesses next tokens, so is_decoder must be true.")


def _labels(path: Path, values: dict[str, Any]) -> tuple[str, ...]:
    """Label names by index from id2label (or label2id, or num_labels)."""
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
        raise ModelFolderError(f"{path}: id2label must name the labels 0, 1, 2, ... without a gap.")
    return tuple(names[index] for index in range(len(names)))


def _not_a_model(folder: Path) -> str:
    """Why `folder` is no model, with the folder that was probably meant."""
    if (folder / "model" / FILE).is_file():
        return f"{folder} is not a model folder, but {folder / 'model'} is one: give that."
    return f"{folder} is not a model folder: it has no {FILE}."
