"""Verify the models in the package against the recorded SHA-256, or replace or add one.

    python tools/built_in.py                         verify all, and list name, files and megabytes
    python tools/built_in.py english runs/english/model
    python tools/built_in.py english-spam runs/english-heads/spam/model

To replace, the folder is copied and its manifest's SHA-256 is recorded in src/maskwright/hub/published.py. An adapter
must be one on a model of the package.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from maskwright.core import storage
from maskwright.core.errors import InputError
from maskwright.core.program import run_program
from maskwright.core.storage import read_facts
from maskwright.hub import published
from maskwright.hub import published as manifests
from maskwright.hub.adapters import is_adapter
from maskwright.hub.folders import load_model

LIMIT, ADAPTER_LIMIT = 25e6, 1.1e6  # bytes of a model with its tokenizer, and of an adapter


def main() -> None:
    """Replace if asked, then verify."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("name", nargs="?", help="english, or english-TASK for an adapter")
    options.add_argument("folder", nargs="?", type=Path, help="model folder with int8 or float16 weights")
    chosen = options.parse_args()
    if (chosen.name is None) != (chosen.folder is None):
        options.error("to replace a model, pass its name and the new folder")
    if chosen.folder is not None:
        replace(chosen.name, chosen.folder)
    total = 0.0
    for name in manifests.MANIFESTS:
        folder = published.built_in_folder(name)
        load_model(name)  # of an adapter: its base is the one that it was trained on
        files = [path for path in folder.rglob("*") if path.is_file()]
        size = sum(path.stat().st_size for path in files) / 1e6
        total += size
        print(f"{name}: {len(files)} files, {size:.2f} MB, verified")
    print(f"all: {total:.1f} MB")


def replace(name: str, folder: Path) -> None:
    """Copy a model folder into the package and record its manifest's SHA-256."""
    storage.verify_folder(folder)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    limit = ADAPTER_LIMIT if is_adapter(folder) else LIMIT
    if size > limit:
        raise InputError(f"{folder} has {size / 1e6:.2f} MB; it may have {limit / 1e6:.1f} MB.")
    base = read_facts(folder).get("adapter", {}).get("base", "")
    if is_adapter(folder) and base not in manifests.MANIFESTS:
        raise InputError(f"{folder} is an adapter on {base}, which is not a model of the package.")
    target = published.BUILT_IN / name
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(folder, target)
    manifests.MANIFESTS[name] = storage.sha256(target / storage.MANIFEST)
    source = Path(manifests.__file__)
    head, _, _ = source.read_text(encoding="utf-8").partition("MANIFESTS = {")
    entries = "".join(f'    "{known}": "{digest}",\n' for known, digest in manifests.MANIFESTS.items())
    storage.write_text(source, f"{head}MANIFESTS = {{\n{entries}}}\n")
    published.built_in_folder.cache_clear()


if __name__ == "__main__":
    run_program(main)
