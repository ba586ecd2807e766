"""From a name to a folder: a folder that is there, or a model of the hub (extra `hub`).

A mistyped path must not wait for a network: what looks like a path is never asked of the hub, and a hub that does not
take a connection within two seconds is left alone (a copy in its cache is still used).
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

CONNECT_SECONDS = 2.0

# owner/name or an old name without owner, as the hub spells them: no part begins or ends with a dot or a hyphen.
_HUB_NAME = re.compile(r"(?=.{1,96}$)[A-Za-z0-9]([\w.-]*\w)?(/[A-Za-z0-9]([\w.-]*\w)?)?", re.ASCII)
_FILE_NAME = re.compile(
    r".*\.(bin|ckpt|csv|git|gz|h5|json|jsonl|md|model|msgpack|npz|onnx|parquet|pkl|pt|pth|py|safetensors|spm|tar|tgz|"
    r"toml|tsv|txt|xml|xz|yaml|yml|zip|zst)",
    re.IGNORECASE,
)
_WANTED = ["*.json", "*.safetensors", "*vocab.txt", "*merges.txt", "*spiece.model", "*sentencepiece.bpe.model", "*.spm"]
_UNWANTED = ["onnx/*", "openvino/*", "coreml/*"]


def find_folder(name: str | Path, also: Sequence[str] = ()) -> tuple[Path, Path]:
    """The folder that `name` means, and the folder inside which its files really lie.

    also: patterns of further files to fetch, where it is a name of the hub.
    Raises MissingFileError when there is none, MissingExtraError when it could be fetched but the extra is missing.
    """
    folder = Path(name)
    if folder.is_dir():
        return folder, folder
    if folder.exists():
        raise ModelFolderError(f"{folder} is a file: give the model folder that it lies in.")
    if isinstance(name, Path) or not is_hub_name(name):
        raise MissingFileError(f"{name} does not exist: give a model folder, or the name of a model of the hub.")
    folder = _download(name, also)
    return folder, folder.parent.parent  # snapshots/REVISION links into blobs/ beside it


def is_hub_name(name: str) -> bool:
    """Whether `name`, which is no folder, can be meant for the hub.

    Not when the hub would not allow it, when it ends as a file does, or when its first part is a folder here: then it
    is a path with a mistake in it.
    """
    if not _HUB_NAME.fullmatch(name) or "--" in name or ".." in name:
        return False
    path = Path(name)
    return not _FILE_NAME.fullmatch(name) and (len(path.parts) == 1 or not path.parent.is_dir())


def _download(name: str, also: Sequence[str]) -> Path:
    try:
        from huggingface_hub import constants, snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
    except ImportError:
        raise MissingExtraError(f"There is no folder {name}; fetching a model of that name", "hub") from None
    asks = not constants.HF_HUB_OFFLINE
    answers = asks and is_reachable(constants.ENDPOINT)
    try:
        found = snapshot_download(
            name,
            allow_patterns=[*_WANTED, *also],
            ignore_patterns=_UNWANTED,
            etag_timeout=CONNECT_SECONDS,
            local_files_only=not answers,
        )
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        reason = str(error).strip().split("\n")[0].rstrip(".")
        if not answers:
            silence = (
                f"could not be reached within {CONNECT_SECONDS:g} seconds"
                if asks
                else "may not be asked (offline mode)"
            )
            reason = f"{constants.ENDPOINT} {silence}, and its cache here has no copy"
        raise MissingFileError(
            f"{name} is no folder here, and the hub did not give a model of that name ({reason})."
        ) from None
    return Path(found)


def is_reachable(address: str, seconds: float = CONNECT_SECONDS) -> bool:
    """Whether the server of a web address, or the proxy on the way to it, takes a connection in time.

    Looking up a name has no time limit of its own, so a thread does it, which may be left behind.
    """
    target = urlsplit(address)
    proxy = getproxies().get(target.scheme)
    if proxy and not proxy_bypass(target.hostname or ""):
        target = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    answered: list[bool] = []

    def connect() -> None:
        """Open a connection and close it again; a refusal leaves the list empty."""
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
