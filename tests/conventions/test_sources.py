"""House rules that ruff and import-linter do not know: no circle, a light start, one writer, names that resolve."""

import ast
import graphlib
import importlib
import re
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conventions.sources import REPOSITORY, paths

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


@pytest.mark.parametrize("command", ["embed", ""])
def test_a_command_imports_no_other_command_and_the_help_none(command):
    code = f"import sys, maskwright.cli.app as cli; cli.app_with({{{command!r}}}); print(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found = {"maskwright.cli.embed", "maskwright.cli.finetune"} & set(result.stdout.split())
    assert found == ({"maskwright.cli.embed"} if command else set())


WRITES = re.compile(r"""(?<!storage)\.write_(text|bytes)\(|(?<!fs\.)\bopen\([^)]*["'][wax]b?\+?["']""")
WRITERS = {"core.storage", "core.locking"}  # the lock has no content


def test_only_core_storage_writes():
    for module in set(paths()) - WRITERS:
        code = paths()[module].read_text(encoding="utf-8")
        code = re.sub(r'""".*?"""|^\s*#.*?$', "", code, flags=re.DOTALL | re.MULTILINE)
        code = re.sub(r'"[^"\n]*"|\'[^\'\n]*\'', lambda match: match[0] if len(match[0]) < 6 else '""', code)
        assert not (found := WRITES.search(code)), f"{module} writes on its own ({found[0] if found else ''})"


def test_the_public_namespace_is_what_it_says():
    import maskwright

    assert sorted(maskwright.__all__) == sorted(maskwright._WHERE)
    for name in maskwright.__all__:
        assert getattr(maskwright, name) is not None


def test_no_module_defines_a_constant_twice():
    """The second one would also hold above it, as after two modules became one."""
    for module, path in paths().items():
        body = ast.parse(path.read_text(encoding="utf-8")).body
        targets = [target for node in body if isinstance(node, ast.Assign) for target in node.targets]
        names = [target.id for target in targets if isinstance(target, ast.Name)]
        assert len(names) == len(set(names)), f"{module}: {sorted(name for name in names if names.count(name) > 1)}"


def test_no_file_speaks_of_a_machine():
    listed = subprocess.run(["git", "ls-files"], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    paths = [
        REPOSITORY / name for name in listed.stdout.split("\n") if name.endswith((".py", ".md", ".toml", ".css", ".sh"))
    ]
    for path in paths:
        is_stored_run = path.is_relative_to(REPOSITORY / "tests/releases")
        if path.exists() and path != REPOSITORY / "tests/conventions/test_sources.py" and not is_stored_run:
            found = re.search(r"(?<![\w.])/(work|root|home|tmp)/\w", path.read_text(encoding="utf-8"))
            assert not found, f"{path.relative_to(REPOSITORY)} names a path of one machine: {found}"


@pytest.mark.compatibility(
    "hypothesis 6.170.15",
    theirs="derandomize=True draws constants from the modules of the project that are imported so far, so its examples "
    "differ from run to run under pytest-xdist",
    ours="the tests draw none, and have the same examples in every run",
)
def test_examples_are_the_same_whatever_was_imported(tmp_path, monkeypatch):
    def drawn():
        found = []

        @settings(max_examples=200)
        @given(st.text(max_size=20))
        def check(text):
            found.append(text)

        check()
        return found

    before = drawn()
    (tmp_path / "other_constants.py").write_text(f"NAMES = {[f'constant {number}' for number in range(40)]}\n")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("other_constants")
    assert drawn() == before
