"""The network of the model that a pre-training continues from, read before its weights."""

from __future__ import annotations

from pathlib import Path

from ...core.errors import MaskwrightError
from ...hub.config_file import read_config
from ...hub.published import built_in_folder, installed_folder, is_built_in, is_short_name
from ...hub.sentence import network_folder
from ...models.config import ModelConfig


def network_here(name: str) -> ModelConfig | None:
    """The network of a model that needs no download; None for others, and where loading it will raise an error."""
    if is_built_in(name):
        folder: Path | None = built_in_folder(name)
    else:
        folder = installed_folder(name) if is_short_name(name) else Path(name)
    try:
        return None if folder is None or "\0" in name else read_config(network_folder(folder)).config
    except MaskwrightError:
        return None
