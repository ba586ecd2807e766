"""House rules that ruff and import-linter do not know: one writer, shapes in docstrings, names that resolve."""

from __future__ import annotations

import ast
import re
import subprocess

import pytest

from conventions.sources import REPOSITORY, ROOT, modules

WRITES = re.compile(r"""(?<!storage)\.write_(text|bytes)\(|(?<!fs\.)\bopen\([^)]*["'][wax]b?\+?["']""")
WRITERS = {"core.storage", "core.locking"}  # the lock has no content


def test_only_core_storage_writes():
    for module in set(modules()) - WRITERS:
        code = (ROOT / (module.replace(".", "/") + ".py")).read_text(encoding="utf-8")
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
    for module, tree in modules().items():
        targets = [target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets]
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
        if path.exists() and path != REPOSITORY / "tests/conventions/test_style.py" and not is_stored_run:
            found = re.search(r"(?<![\w.])/(work|root|home|tmp)/\w", path.read_text(encoding="utf-8"))
            assert not found, f"{path.relative_to(REPOSITORY)} names a path of one machine: {found}"
