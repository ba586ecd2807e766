"""Uploads a model folder to the Hugging Face Hub, in one commit (extra `hub`).

`plan_push` reads the folder and asks nobody; `push` uploads what the plan lists.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from ..core.errors import ConfigError, InputError, MissingExtraError, MissingFileError, ModelFolderError
from ..core.storage import (
    FACTS,
    MANIFEST,
    files_in,
    inside,
    is_model_folder,
    read_bytes,
    read_facts,
    read_json,
    verify_sealed,
)
from .download import is_hub_name, is_reachable
from .weights import UNSAFE

CARD = "README.md"
_FRONT_MATTER = re.compile(r"\A---\n(.*?)^---\n", re.DOTALL | re.MULTILINE)
_LICENSE = re.compile(r"^license:[ \t]*(\S.*?)[ \t]*\n", re.MULTILINE)
_LICENSE_ID = re.compile(r"[a-z0-9][a-z0-9.\-]{0,63}")
# Files that can run code when they are opened; OpenVINO's weights share an ending with torch's.
_UNSAFE = (*UNSAFE, "*.h5", "*.joblib", "*.msgpack", "*.np", "*.npz", "*.pickle", "*.py")
_SAFE = "openvino_model.bin"
_TOKEN = re.compile(rb"hf_[A-Za-z0-9]{30,}")  # an access token of the Hub
_TEXT_FILES = (".json", ".jsonl", ".md", ".toml", ".txt", ".xml")


@dataclass(frozen=True)
class PushPlan:
    """What a push uploads.

    Attributes:
        folder: The local folder.
        name: OWNER/NAME on the Hub.
        files: Bytes of each file, by its path in the folder.
        metadata: The front matter of the model card, as text.
        license: The license that the card states; "" if none.
        num_examples: Held-out texts in maskwright.json, which become public too.
        changed: New content of the card and the manifest, where a license is added.
    """

    folder: Path
    name: str
    files: dict[str, int]
    metadata: str
    license: str
    num_examples: int = 0
    changed: dict[str, bytes] = field(default_factory=dict, repr=False)

    @property
    def size_bytes(self) -> int:
        return sum(self.files.values())

    def to_json(self) -> dict[str, Any]:
        """Plain values, without the content of files."""
        return {
            "folder": str(self.folder),
            "name": self.name,
            "files": self.files,
            "size_bytes": self.size_bytes,
            "metadata": self.metadata,
            "license": self.license or None,
            "num_examples": self.num_examples,
        }


def plan_push(folder: str | Path, name: str, license: str | None = None) -> PushPlan:
    """Check a model folder, and list what a push uploads: all files except hidden ones. Uses no network.

    Args:
        folder: Model folder, adapter or exported folder.
        name: OWNER/NAME on the Hub.
        license: Identifier of a license, such as "apache-2.0", that is written to the uploaded card; the local folder
            stays unchanged.

    Raises:
        ConfigError: a name or a license that the Hub does not allow.
        MissingFileError, ModelFolderError: no model folder, or one without model card.
        CorruptFileError: a file differs from the manifest.
        InputError: a file that can run code, a link out of the folder, or a file with an access token.
    """
    folder = Path(folder)
    if name.count("/") != 1 or not is_hub_name(name):
        raise ConfigError(f"'{name}' is not a Hub model ID: write OWNER/NAME, such as my-team/ticket-classifier.")
    if license is not None and not _LICENSE_ID.fullmatch(license):
        raise ConfigError(
            f"'{license}' is not a license identifier: write one as the Hub lists them, such as apache-2.0."
        )
    if not folder.is_dir():
        raise MissingFileError(f"{folder} does not exist: specify a model folder.")
    if not is_model_folder(folder) and "export" not in read_facts(folder):
        raise ModelFolderError(
            f"{folder} is not a model folder: it has no config.json, adapter_config.json or {FACTS}."
        )
    verify_sealed(folder)
    if not (folder / CARD).is_file():
        raise ModelFolderError(f"{folder} has no {CARD}: write a model card, or save the model with Maskwright.")
    names = [*files_in(folder), *([MANIFEST] if (folder / MANIFEST).is_file() else [])]
    for one in names:
        _check_file(folder, one)
    card = read_bytes(folder / CARD).decode("utf-8")
    changed = {}
    if license is not None and license != _stated_license(card):
        card = _with_license(card, license)
        changed = _with_card(folder, card.encode())
    sizes = {one: len(changed[one]) if one in changed else (folder / one).stat().st_size for one in names}
    found = _FRONT_MATTER.match(card)
    metadata = found[1].rstrip("\n") if found else ""
    examples = read_facts(folder).get("examples")
    num_examples = len(examples) if isinstance(examples, list) else 0
    return PushPlan(folder, name, sizes, metadata, _stated_license(card), num_examples, changed)


def push(plan: PushPlan, *, private: bool = False, message: str = "Upload model", endpoint: str | None = None) -> str:
    """Upload the files of a plan in one commit, and return the address of the model.

    The access token is that of `huggingface_hub`: the environment variable HF_TOKEN, or `hf auth login`.

    Args:
        plan: Of `plan_push`.
        private: Create the model as private; no effect on one that exists.
        message: Title of the commit.
        endpoint: Address of the Hub; default: the environment variable HF_ENDPOINT, or huggingface.co.

    Raises:
        ConfigError: the card states no license.
        MissingExtraError: without the extra `hub`.
        InputError: the Hub does not answer, or rejects the upload.
    """
    if not plan.license:
        raise ConfigError(
            f"The card of {plan.folder} states no license: add --license ID, such as apache-2.0, or 'other'."
        )
    try:
        from huggingface_hub import CommitOperationAdd, HfApi, constants
        from huggingface_hub.errors import HfHubHTTPError, LocalTokenNotFoundError
    except ImportError:
        raise MissingExtraError("Uploading to the Hub", "hub") from None
    address = endpoint or constants.ENDPOINT
    if constants.HF_HUB_OFFLINE or not is_reachable(address):
        state = "offline mode is set" if constants.HF_HUB_OFFLINE else f"{address} does not answer"
        raise InputError(f"{plan.name} was not uploaded: {state}.")
    api = HfApi(endpoint=address)
    operations = [
        CommitOperationAdd(path_in_repo=one, path_or_fileobj=plan.changed.get(one, plan.folder / one))
        for one in plan.files
    ]
    try:
        api.create_repo(plan.name, private=private, exist_ok=True)
        api.create_commit(plan.name, operations, commit_message=message)
    except LocalTokenNotFoundError:
        raise InputError(_NO_TOKEN.format(name=plan.name)) from None
    except HfHubHTTPError as error:
        status = error.response.status_code if error.response is not None else None
        if status in (401, 403):
            raise InputError(_NO_TOKEN.format(name=plan.name)) from None
        reason = _TOKEN.sub(b"hf_...", (error.server_message or str(error)).encode()).decode().strip().split("\n")[0]
        raise InputError(f"{plan.name} was not uploaded: {address} answers {status}: {reason.rstrip('.')}.") from None
    except OSError as error:
        raise InputError(f"{plan.name} was not uploaded: the connection to {address} failed ({error}).") from None
    return f"{address}/{plan.name}"


_NO_TOKEN = (
    "{name} was not uploaded: the Hub needs an access token with write permission for it. Run hf auth login, or set "
    "HF_TOKEN."
)


def _check_file(folder: Path, name: str) -> None:
    path = inside(folder, name)
    if path.name != _SAFE and any(fnmatch(path.name.lower(), pattern) for pattern in _UNSAFE):
        raise InputError(f"{folder / name} can run code when it is opened: remove it, or convert it to safetensors.")
    if path.suffix in _TEXT_FILES and _TOKEN.search(read_bytes(path)):
        raise InputError(f"{folder / name} contains an access token of the Hub: remove it, and revoke the token.")


def _stated_license(card: str) -> str:
    front = _FRONT_MATTER.match(card)
    found = _LICENSE.search(front[1]) if front else None
    return found[1].strip("'\"") if found else ""


def _with_license(card: str, license: str) -> str:
    """The card with this license in its front matter."""
    front = _FRONT_MATTER.match(card)
    if front is None:
        return f"---\nlicense: {license}\n---\n\n{card}"
    lines = _LICENSE.sub("", front[1])
    return f"---\nlicense: {license}\n{lines}---\n{card[front.end() :]}"


def _with_card(folder: Path, card: bytes) -> dict[str, bytes]:
    """Files that change with the card: itself, and the manifest that records its SHA-256."""
    if not (folder / MANIFEST).is_file():
        return {CARD: card}
    manifest = read_json(folder / MANIFEST)
    manifest["files"][CARD] = {"size": len(card), "sha256": hashlib.sha256(card).hexdigest()}
    return {CARD: card, MANIFEST: (json.dumps(manifest, indent=2) + "\n").encode()}
