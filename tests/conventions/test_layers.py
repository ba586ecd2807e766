"""Imports go down the floors; the core and the command line import nothing heavy."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

from conventions.sources import modules, room

FLOORS = {
    "core": 0,
    "text": 1,
    "nn": 1,
    "models": 2,
    "data": 2,
    "objectives": 3,
    "tasks": 4,
    "train": 5,
    "hub": 5,
    "inference": 5,
    "inspect": 5,
    "estimators": 6,
    "doctor": 6,
    "speed": 6,
    "api": 6,
    "cli": 7,
    "lessons": 7,
    "studio": 7,
    "__init__": 8,
    "__main__": 8,
}
# On one floor: training writes model folders and encodes text; models take packed batches; the tokenizer makes them;
# a plan asks what the machine has, and a bench opens models as others do; what is looked at is read and filled as by
# the commands that use a model, and pages are written as reports are; commands show lessons and open the
# studio, which shows lessons too.
SAME_FLOOR = {
    ("train", "hub"),
    ("train", "inference"),
    ("inspect", "inference"),
    ("inspect", "train"),
    ("models", "data"),
    ("api", "estimators"),
    ("estimators", "api"),
    ("speed", "doctor"),
    ("speed", "api"),
    ("cli", "lessons"),
    ("cli", "studio"),
    ("studio", "lessons"),
}
UPWARD = {("text.tokenizer", "data")}  # Tokenizer.batch returns the packed batch
HEAVY = {"torch", "tokenizers", "sklearn", "numpy", "safetensors", "pandas", "pyarrow"}


def imported_rooms(module: str, tree: ast.Module) -> set[str]:
    """The rooms of our own package that a module imports, anywhere in it."""
    parts = module.split(".")
    found = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom):
            continue
        if node.level:
            base = parts[: len(parts) - node.level]
            target = base + (node.module.split(".") if node.module else [])
            found.update([target[0]] if target else [alias.name for alias in node.names])
        elif node.module and node.module.startswith("maskwright."):
            found.add(node.module.split(".")[1])
    return found - {"__version__"}


@pytest.mark.parametrize("module", [name for name in modules() if name != "__init__"])
def test_imports_go_down(module: str):
    here = room(module)
    assert here in FLOORS, f"{here} has no floor: add it to the table of the house"
    for other in imported_rooms(module, modules()[module]):
        if other not in FLOORS or other == here or (module, other) in UPWARD:
            continue
        allowed = FLOORS[other] < FLOORS[here] or (here, other) in SAME_FLOOR
        assert allowed, f"{module} (floor {FLOORS[here]}) imports {other} (floor {FLOORS[other]})"


def top_level_imports(tree: ast.Module) -> set[str]:
    """Packages imported when the module is imported."""
    names = set()
    for node in tree.body:
        if isinstance(node, ast.Import):
            names.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names.add(node.module.split(".")[0])
    return names


@pytest.mark.parametrize("module", [name for name in modules() if room(name) == "cli" or name == "__init__"])
def test_the_command_line_imports_nothing_heavy(module: str):
    assert not top_level_imports(modules()[module]) & HEAVY


def test_importing_the_package_and_its_help_loads_no_torch():
    code = f"import sys, maskwright, maskwright.cli.app; print(sorted({HEAVY!r} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


@pytest.mark.parametrize("module", list(modules()))
def test_the_product_never_imports_transformers(module: str):
    for node in ast.walk(modules()[module]):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
        assert not any(name.split(".")[0] in ("transformers", "pickle", "yaml", "dill") for name in names)
