"""No circle of imports (import-linter holds the layers), and a light start of the command line."""

from __future__ import annotations

import ast
import graphlib
import subprocess
import sys

from conventions.sources import modules

HEAVY = {"torch", "tokenizers", "sklearn", "numpy", "safetensors", "pandas", "pyarrow"}


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


def test_importing_the_package_and_its_help_loads_no_torch():
    code = f"import sys, maskwright.cli.app as cli; cli.whole_app(); print(sorted({HEAVY!r} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_a_command_imports_no_other_command():
    code = "import sys, maskwright.cli.app as cli; sys.argv = ['maskwright', 'embed']; cli._app(); print(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"maskwright.cli.embed", "maskwright.cli.finetune"} & set(result.stdout.split()) == {"maskwright.cli.embed"}
