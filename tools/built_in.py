"""Verify the models in the package against the recorded SHA-256, or replace one by a newly trained folder.

    python tools/built_in.py                         verify, and list name, files and megabytes
    python tools/built_in.py english runs/english/model

To replace, the folder is copied and its manifest's SHA-256 is recorded in src/maskwright/hub/published.py.
"""

from __future__ import annotations

import argparse
import re
import shutil
from pathlib import Path

from maskwright.core import storage
from maskwright.core.errors import InputError
from maskwright.core.program import run_program
from maskwright.hub import published

LIMIT = 25e6  # bytes of a model with its tokenizer


def main() -> None:
    """Replace if asked, then verify."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("name", nargs="?", choices=sorted(published.MANIFESTS))
    options.add_argument("folder", nargs="?", type=Path, help="model folder with float16 weights")
    chosen = options.parse_args()
    if chosen.folder is not None:
        replace(chosen.name, chosen.folder)
    for name in published.MANIFESTS if chosen.folder is None else [chosen.name]:
        folder = published.built_in_folder(name)
        files = [path for path in folder.rglob("*") if path.is_file()]
        print(f"{name}: {len(files)} files, {sum(path.stat().st_size for path in files) / 1e6:.1f} MB, verified")


def replace(name: str, folder: Path) -> None:
    """Copy a model folder into the package and record its manifest's SHA-256."""
    storage.verify_folder(folder)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    if size > LIMIT:
        raise InputError(f"{folder} has {size / 1e6:.1f} MB; a built-in model has at most {LIMIT / 1e6:.0f} MB.")
    target = published.BUILT_IN / name
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(folder, target)
    digest = storage.sha256(target / storage.MANIFEST)
    source = Path(published.__file__)
    text, count = re.subn(rf'(\b{name.upper()}: )"[0-9a-f]*"', rf'\1"{digest}"', source.read_text(encoding="utf-8"))
    assert count == 1, f"{source} has no line for {name}"
    storage.write_text(source, text)
    published.MANIFESTS[name] = digest


if __name__ == "__main__":
    run_program(main)
