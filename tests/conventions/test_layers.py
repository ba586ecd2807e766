"""Imports go down the layers, without circles; the core and the command line import nothing heavy."""

from __future__ import annotations

import ast
import graphlib
import subprocess
import sys

import pytest

from conventions.sources import modules, room

LAYERS = {
    "core": 0,
    "nn": 1,
    "text": 1,
    "report": 1,
    "models": 2,
    "data": 2,
    "objectives": 3,
    "tasks": 4,
    "hub": 4,
    "train": 5,
    "inference": 5,
    "inspect": 5,
    "export": 5,
    "http": 6,
    "estimators": 6,
    "api": 6,
    "training": 6,
    "experiments": 6,
    "doctor": 6,
    "speed": 6,
    "scale": 7,
    "lessons": 7,
    "serve": 7,
    "studio": 7,
    "cli": 8,
    "__init__": 9,
    "__main__": 9,
}
# Allowed inside one layer: models take packed batches; training, inspection and export run a model as inference
# does; `load` and the estimators call each other; `training` calls experiments; a plan asks what the
# machine has; loaded models are opened by the api; the studio shows lessons.
SAME_LAYER = {
    ("models", "data"),
    ("train", "inference"),
    ("inspect", "inference"),
    ("export", "inference"),
    ("api", "estimators"),
    ("estimators", "api"),
    ("training", "experiments"),
    ("speed", "doctor"),
    ("speed", "api"),
    ("http", "api"),
    ("studio", "lessons"),
}
UPWARD = {("text.tokenizers.tokenizer", "data")}  # Tokenizer.batch returns the packed batch
HEAVY = {"torch", "tokenizers", "sklearn", "numpy", "safetensors", "pandas", "pyarrow"}


def imported_packages(module: str, tree: ast.Module) -> set[str]:
    """The packages of ours that a module imports, anywhere in it, for type checking too."""
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
    assert here in LAYERS, f"{here} has no layer: add it to the table"
    for other in imported_packages(module, modules()[module]):
        if other not in LAYERS or other == here or (module, other) in UPWARD:
            continue
        allowed = LAYERS[other] < LAYERS[here] or (here, other) in SAME_LAYER
        assert allowed, f"{module} (layer {LAYERS[here]}) imports {other} (layer {LAYERS[other]})"


def imported_modules(module: str, tree: ast.Module) -> set[str]:
    """The modules of ours that a module imports, anywhere in it, for type checking too."""
    parts = [part for part in module.split(".") if part != "__init__"]
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = parts[: len(parts) - node.level + module.endswith("__init__")]
            target = ".".join(base + (node.module.split(".") if node.module else []))
            for alias in node.names:
                name = f"{target}.{alias.name}".strip(".")
                places = (name, f"{name}.__init__", target, f"{target}.__init__")
                found.update([place for place in places if place in modules()][:1])
    return found - {module}


def test_no_circle_of_files():
    edges = {name: imported_modules(name, tree) for name, tree in modules().items()}
    graphlib.TopologicalSorter(edges).prepare()  # CycleError names the files


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
    code = f"import sys, maskwright.cli.app as cli; cli.whole_app(); print(sorted({HEAVY!r} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_a_command_imports_no_other_command():
    code = "import sys, maskwright.cli.app as cli; sys.argv = ['maskwright', 'embed']; cli._app(); print(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"maskwright.cli.embed", "maskwright.cli.finetune"} & set(result.stdout.split()) == {"maskwright.cli.embed"}


@pytest.mark.parametrize("module", list(modules()))
def test_the_product_never_imports_transformers(module: str):
    for node in ast.walk(modules()[module]):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
        assert not any(name.split(".")[0] in ("transformers", "pickle", "yaml", "dill") for name in names)
