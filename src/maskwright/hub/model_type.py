"""Infers the family of a config.json without `model_type`, as in folders from before November 2019.

The class in `architectures` decides, else the tensor names. Names that fit several families with different
architectures are an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from ..core.errors import ModelFolderError
from ..core.progress import note
from .family import Family, families, family_named


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


def _fitting(published: list[Family], names: list[str]) -> list[Family]:
    """Families whose embeddings, norms and first layer are all present; prefix matches first, then most names."""
    fits = []
    for family in published:
        found = {family.canonical(name) for name in names}
        wanted = _first_names(family)
        if found.issuperset(wanted):
            has_prefix = any(name.startswith(family.prefix) for name in names)
            fits.append(((has_prefix, len(wanted)), family))
    most = max((rank for rank, _ in fits), default=None)
    return [family for rank, family in fits if rank == most]


def _first_names(family: Family) -> list[str]:
    """Names without prefix in every checkpoint of a family: word embeddings, their norm, and layer 0."""
    table = dict(family.encoder)
    if not family.fixed.get("first_norm", True):
        del table["layers.{i}.attention_norm.{p}"]
    kept = ("embeddings.word.weight", "embeddings.norm.{p}")
    rows = [theirs for ours, theirs in table.items() if ours in kept or ours.startswith("layers.")]
    return [name.format(i=0, k=0, p="weight") for row in rows for name in row]


def _settled(types: set[str], values: Mapping[str, Any]) -> str | None:
    """Distinguish families with the same tensor names by settings that only one of them has; None if undecided."""
    if len(types) == 1:
        return next(iter(types))
    for model_type, setting in (("big_bird", "attention_type"), ("electra", "embedding_size")):
        if model_type in types and setting in values:
            return model_type
    if types == {"roberta", "xlm-roberta"}:  # same architecture
        return "roberta"
    # RoBERTa has one segment, padding token 1, and a position offset.
    segments = values.get("type_vocab_size", 2)
    may_be_roberta = "roberta" in types and (segments == 1 or values.get("pad_token_id", 0) != 0)
    return "bert" if "bert" in types and not may_be_roberta else None
