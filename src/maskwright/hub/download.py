"""From a name to a folder: a folder that is there, or a model of the hub (extra `hub`)."""

from __future__ import annotations

import re
from pathlib import Path

from ..core.errors import MissingExtraError, MissingFileError, ModelFolderError

# owner/name or an old name without owner, as the hub spells them; no dots that climb.
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}(/[A-Za-z0-9][\w.-]{0,95})?")
_WANTED = ["*.json", "*.safetensors", "*vocab.txt", "*merges.txt"]
_UNWANTED = ["onnx/*", "openvino/*", "coreml/*"]


def find_folder(name: str | Path) -> tuple[Path, Path]:
    """The folder that `name` means, and the folder inside which its files really lie.

    Raises MissingFileError when there is none, MissingExtraError when it could be fetched but the extra is missing.
    """
    folder = Path(name)
    if folder.is_dir():
        return folder, folder
    if folder.exists():
        raise ModelFolderError(f"{folder} is a file: give the model folder that it lies in.")
    if isinstance(name, Path) or not _HUB_NAME.fullmatch(name):
        raise MissingFileError(f"{name} does not exist: give a model folder, or the name of a model of the hub.")
    folder = _download(name)
    return folder, folder.parent.parent  # snapshots/REVISION links into blobs/ beside it


def _download(name: str) -> Path:
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
    except ImportError:
        raise MissingExtraError(f"There is no folder {name}; fetching a model of that name", "hub") from None
    try:
        return Path(snapshot_download(name, allow_patterns=_WANTED, ignore_patterns=_UNWANTED))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        reason = str(error).strip().split("\n")[0].rstrip(".")
        raise MissingFileError(
            f"{name} is no folder here, and the hub did not give a model of that name ({reason})."
        ) from None
