"""Finds the parts of a benchmark in a folder: original files or plain ones, compressed or not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ...core.errors import MissingFileError
from ...text.formats.files import PACKINGS
from ...text.readers.glue import glue_files
from .parts import PARTS, Layout, Part, plain

_FOLDERS = {name for parts in PARTS.values() for part in parts if part.layout for name in part.layout.folders}


@dataclass(frozen=True)
class Source:
    """The files of a part: split -> path, at least "train" and "dev"."""

    part: Part
    files: Mapping[str, Path]


def find_sources(folder: Path, parts: Iterable[Part]) -> tuple[list[Source], dict[str, str]]:
    """The parts with training and dev files, and the reason for each score that cannot be measured.

    Raises MissingFileError when `folder` is not a folder, or does not contain any part.
    """
    if not folder.is_dir():
        raise MissingFileError(f"{folder} is not a folder: pass the one that contains the benchmark's files.")
    found: list[Source] = []
    missing: dict[str, str] = {}
    for part in parts:
        files, reason = _files(folder, part)
        lacks = [split for split in ("train", "dev") if split not in files]
        if lacks:
            noun = "files are" if len(lacks) > 1 else "file is"
            reason = reason or f"its {' and '.join(lacks)} {noun} missing"
            missing |= {number.name: reason for number in part.numbers}
            continue
        found.append(Source(part, files))
        for number in part.numbers:
            if number.split not in files:
                missing[number.name] = f"its {number.split} file is missing"
    if not found:
        told = "; ".join(f"{name}: {reason}" for name, reason in missing.items())
        raise MissingFileError(
            f"{folder} does not contain any part of the benchmark with train and dev examples ({told})."
        )
    return found, missing


def _files(folder: Path, part: Part) -> tuple[dict[str, Path], str]:
    """The files by split, and the reason if there are none."""
    if part.layout is not None:
        return _laid_out(folder, part.layout), ""
    try:
        files = glue_files(folder, part.name)
    except MissingFileError as error:
        return {}, str(error).removeprefix(f"{folder} ").rstrip(".")
    if "dev_matched" in files:
        files["dev"] = files["dev_matched"]
    return files, ""


def _laid_out(folder: Path, layout: Layout) -> dict[str, Path]:
    top = plain(folder.resolve().name)
    is_own = top in layout.folders or (layout.anywhere and top not in _FOLDERS)
    named = [place for place in sorted(folder.iterdir()) if place.is_dir() and plain(place.name) in layout.folders]
    for place in named + [folder] * is_own:
        files = _in_folder(place, layout.own) or _in_folder(place, layout.plain)
        if files:
            return files
    return _in_folder(folder, layout.own)


def _in_folder(folder: Path, names: Mapping[str, tuple[str, ...]]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for split, files in names.items():
        paths = [folder / f"{file}{packing}" for file in files for packing in ("", *PACKINGS)]
        hit = next((path for path in paths if path.is_file()), None)
        found |= {} if hit is None else {split: hit}
    return found
