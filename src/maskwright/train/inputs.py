"""The files that a run reads, by the SHA-256 of their content: a run with other data is another run.

`inputs.json` in the run folder records them when the run begins, and they are compared when it resumes or returns its
results. Of a data file the bytes are compared, and the suffixes that decide its format; of the folder of a model or a
tokenizer, the bytes of each file that is loaded. Paths and dates are not compared, so data and run folders may move.
Token shards have digests already; pipes, `hub:` names and object stores are compared by name, as settings.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from ..core import storage
from ..core.config import settings_of
from ..core.errors import CorruptFileError, InputError, MaskwrightError
from ..core.object_store import is_remote
from ..data.shards import FACTS, read_facts
from ..hub.adapters import base_of, is_adapter
from ..hub.download import find_folder
from ..hub.published import is_built_in
from ..text.formats.files import HUB, PACKINGS, STDIN, bare_suffix, expand
from ..text.readers.corpus import FOLDER_FORMATS

INPUTS = "inputs.json"
ROWS, TEXT, MODEL = "rows", "text", "model"  # values of `core.config.Setting.reads`
SHOWN = 5  # changed files in a message
_LOADED = (".json", ".safetensors", ".txt", ".model", ".spm")  # suffixes in the folder of a model or a tokenizer
_NOT_LOADED = (storage.MANIFEST, "trainer_state.json")
_PART = re.compile(r"\d+_\w+|target_tokenizer")  # subfolders that are loaded


@dataclass(frozen=True)
class InputFile:
    """A file that a run reads.

    file: its path, or that of its model by name; name: what is compared besides the content, a suffix or the path in a
    folder; path, state: where it is now, and what `storage.state_of` returned; None if it is only recorded; of_model:
    whether it is of a model or tokenizer, which a run may load several times.
    """

    file: str
    name: str
    bytes: int
    sha256: str
    path: Path | None = field(default=None, compare=False)
    state: tuple[int, ...] | None = field(default=None, compare=False)
    of_model: bool = field(default=False, compare=False)

    @classmethod
    def of(cls, path: Path, name: str, file: str = "") -> InputFile:
        """A file on this machine. file: how it is shown, if it is of a model."""
        state = storage.state_of(path)
        digest = storage.input_sha256(path)
        return cls(file or str(path), name, path.stat().st_size, digest, path, state, bool(file))

    @property
    def content(self) -> tuple[str, str]:
        return self.name, self.sha256

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("file", "name", "bytes", "sha256")}


@dataclass(frozen=True)
class Inputs:
    """The files that a run reads, by the setting that names them, in reading order."""

    files: Mapping[str, tuple[InputFile, ...]]

    def equal_settings(self, other: Inputs) -> set[str]:
        """The settings whose files have the same content in both, under whatever paths."""
        contents = [{name: [one.content for one in found] for name, found in of.files.items()} for of in (self, other)]
        return {name for name, found in contents[0].items() if found and found == contents[1].get(name)}

    def changes(self, before: Inputs, settings: Collection[str]) -> list[str]:
        """How the files of these settings differ from those `before`, each as a clause that names the file."""
        found: list[str] = []
        for setting in sorted(set(settings) & before.files.keys() - self.equal_settings(before)):
            old, new = ({one.file: one for one in files.get(setting, ())} for files in (before.files, self.files))
            found += [
                f"{file} has changed (its SHA-256 differs)"
                for file, one in new.items()
                if file in old and one.content != old[file].content
            ]
            if new:  # else they are missing, or a model would have to be downloaded
                found += [f"{file} of '{setting}' is missing" for file in old if file not in new]
                found += [f"{file} of '{setting}' is new" for file in new if file not in old]
        return found

    def missing(self, before: Inputs) -> list[str]:
        """Recorded files that cannot be compared, because they are not there."""
        return [one.file for setting, files in before.files.items() if not self.files.get(setting) for one in files[:1]]

    def check_unchanged(self, *, models_only: bool = False) -> None:
        """Raise InputError if a file has changed since its SHA-256 was computed, that is, while it was being read."""
        for one in (one for files in self.files.values() for one in files):
            if one.path is None or one.state is None or (models_only and not one.of_model):
                continue
            is_there = one.path.is_file()
            if not is_there or (storage.state_of(one.path) != one.state and storage.sha256(one.path) != one.sha256):
                raise InputError(
                    f"{one.file} {'has changed' if is_there else 'was removed'} while this run was reading it: restore "
                    "it, or run the command again with --restart."
                )

    def write(self, folder: Path) -> None:
        storage.write_json(
            folder / INPUTS, {setting: [one.to_json() for one in files] for setting, files in self.files.items()}
        )

    @classmethod
    def recorded(cls, folder: Path) -> Inputs | None:
        """The files that a run folder records; None for a run of an older version. Raises CorruptFileError."""
        path = folder / INPUTS
        if not path.is_file():
            return None
        try:
            found = {
                setting: tuple(InputFile(**one) for one in files) for setting, files in storage.read_json(path).items()
            }
        except (AttributeError, TypeError):
            raise CorruptFileError(f"{path} is not as written: restore it from a copy, or use --restart.") from None
        return cls(found)


def inputs_named(texts: Mapping[str, Iterable[str | Path]]) -> Inputs:
    """Files, folders and patterns of text or rows, by the name of what reads them. Raises MissingFileError."""
    return Inputs(
        {name: tuple(one for source in sources for one in _text_files(str(source))) for name, sources in texts.items()}
    )


Finder = Callable[[], Mapping[str, Path]]


def inputs_of(config: Any, is_finished: bool = False, own: Mapping[str, Finder] | None = None) -> Inputs:
    """The files that a recipe reads.

    is_finished: whether the run is finished, so no model is downloaded; own: for a setting, a function that finds its
    files, by the name that is compared. What is not there is skipped: reading it, if at all, states the reason.
    """
    models = partial(_model_files, is_finished=is_finished)
    files: dict[str, Callable[[str], Iterator[InputFile]]] = {ROWS: _row_files, TEXT: _text_files, MODEL: models}
    found: dict[str, tuple[InputFile, ...]] = {}
    for name, setting in settings_of(type(config)).items():
        value = getattr(config, name)
        with suppress(MaskwrightError, OSError):
            if own is not None and name in own:
                found[name] = tuple(
                    replace(one, name=f"{label} {one.name}")
                    for label, path in own[name]().items()
                    for one in _row_files(str(path))
                )
            elif setting.reads and value:
                values = [str(value)] if isinstance(value, (str, Path)) else list(map(str, value))
                found[name] = tuple(one for source in values for one in files[setting.reads](source))
    return Inputs({name: known for name, known in found.items() if known})


def _row_files(source: str) -> Iterator[InputFile]:
    """A labeled file, with the text beside one of annotations, or all files of a folder."""
    path = Path(source)
    if path.is_dir():
        for one in sorted(path.rglob("*")):
            inside = one.relative_to(path)
            if one.is_file() and not any(part.startswith(".") for part in inside.parts):
                yield InputFile.of(one, inside.as_posix())
        return
    yield from _text_files(source)
    if path.suffix == ".ann" and path.with_suffix(".txt").is_file():
        yield InputFile.of(path.with_suffix(".txt"), ".txt")


def _text_files(source: str) -> Iterator[InputFile]:
    """The files of a corpus: a file, a folder, a glob pattern or a folder of token shards."""
    if is_remote(source):
        return
    if (Path(source) / FACTS).is_file():
        yield _prepared(Path(source))
        return
    for name in expand(source, FOLDER_FORMATS):
        path = Path(name)
        if name != STDIN and not name.startswith(HUB) and path.is_file():
            packing = path.suffix.lower() if path.suffix.lower() in PACKINGS else ""
            yield InputFile.of(path, bare_suffix(path) + packing)


def _prepared(folder: Path) -> InputFile:
    """Token shards, by the digests in their facts."""
    facts = read_facts(folder)
    digests = [facts["tokenizer_sha256"], facts["settings"], [one.get("manifest_sha256") for one in facts["shards"]]]
    digest = hashlib.sha256(json.dumps(digests, sort_keys=True).encode()).hexdigest()
    return InputFile(str(folder), FACTS, sum(one["tokens"] for one in facts["shards"]), digest)


def _model_files(name: str, is_finished: bool) -> Iterator[InputFile]:
    """The files of a model or tokenizer, and of the base of an adapter."""
    path = Path(name)
    if path.is_file():
        yield InputFile.of(path, path.name)
        return
    if is_finished and not path.is_dir() and not is_built_in(name):
        return
    folder, _ = find_folder(name)
    yield from _loaded_files(folder, name if not path.is_dir() else str(folder))
    if is_adapter(folder):
        yield from _loaded_files(base := base_of(folder), str(base))


def _loaded_files(folder: Path, shown: str) -> Iterator[InputFile]:
    parts = [folder, *sorted(path for path in folder.iterdir() if path.is_dir() and _PART.fullmatch(path.name))]
    for path in (path for part in parts for path in sorted(part.iterdir())):
        if path.suffix in _LOADED and path.is_file() and path.name not in _NOT_LOADED:
            inside = path.relative_to(folder).as_posix()
            yield InputFile.of(path, inside, f"{shown}/{inside}")
