"""Settings that a model recommends for its fine-tuning: the entry `finetuning` of maskwright.json.

The learning rate that suits a model depends on its size and pre-training, so the folder can declare it; the built-in
`english` does. Options that the user gives always win.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..core.errors import CorruptFileError
from ..core.storage import FACTS, read_facts
from .published import built_in_folder, is_built_in

RECOMMENDED = "finetuning"  # entry of maskwright.json


def recommended_lr(model: str | Path | None) -> float | None:
    """The peak learning rate that a model recommends for full fine-tuning, None if it recommends none.

    Only the package and existing folders are asked, so that a Hub model is not downloaded for it. Raises
    CorruptFileError for a value that is not a positive number.
    """
    if model is None:
        return None
    folder = built_in_folder(str(model)) if is_built_in(model) else Path(model)
    if "\0" in str(folder) or not folder.is_dir():
        return None
    return _lr_of(folder, read_facts(folder))


def inherited_settings(model: str | None) -> dict[str, Any]:
    """What maskwright.json of a model says that was pre-trained further from `model`: its recommendation."""
    lr = recommended_lr(model)
    return {} if lr is None else {RECOMMENDED: {"lr": lr}}


def _lr_of(folder: Path, facts: Mapping[str, Any]) -> float | None:
    found = facts.get(RECOMMENDED)
    if found is None:
        return None
    lr = found.get("lr") if isinstance(found, dict) else found
    if isinstance(lr, bool) or not isinstance(lr, int | float) or not 0 < lr < 1:
        raise CorruptFileError(f"{folder / FACTS}: '{RECOMMENDED}' needs a learning rate 'lr' between 0 and 1.")
    return float(lr)
