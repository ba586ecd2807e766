"""No circle of imports (import-linter holds the layers), and a light start of the command line."""

from __future__ import annotations

import graphlib
import re
import subprocess
import sys

from conventions.sources import paths

HEAVY = {"torch", "tokenizers", "sklearn", "numpy", "safetensors", "pandas", "pyarrow"}


IMPORT = re.compile(r"^[ \t]*from (\.+)([\w.]*) import (\([^)]*\)|.*)", re.MULTILINE)


def imported_modules(module: str) -> set[str]:
    """The modules of ours that a module imports, anywhere in it, for type checking too."""
    parts = [part for part in module.split(".") if part != "__init__"]
    found = set()
    for dots, place, names in IMPORT.findall(paths()[module].read_text(encoding="utf-8")):
        base = parts[: len(parts) - len(dots) + module.endswith("__init__")]
        target = ".".join(base + (place.split(".") if place else []))
        for name in re.findall(r"(\w+)(?: as \w+)?", names):
            places = (f"{target}.{name}".strip("."), f"{target}.{name}.__init__", target, f"{target}.__init__")
            found.update([one for one in places if one in paths()][:1])
    return found - {module}


def test_no_circle_of_files():
    edges = {name: imported_modules(name) for name in paths()}
    assert sum(map(len, edges.values())) > 1000
    graphlib.TopologicalSorter(edges).prepare()  # CycleError names the files


def test_importing_the_package_and_its_help_loads_no_torch():
    code = f"import sys, maskwright.cli.app as cli; cli.whole_app(); print(sorted({HEAVY!r} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_a_command_imports_no_other_command():
    code = "import sys, maskwright.cli.app as cli; sys.argv = ['maskwright', 'embed']; cli._app(); print(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"maskwright.cli.embed", "maskwright.cli.finetune"} & set(result.stdout.split()) == {"maskwright.cli.embed"}
