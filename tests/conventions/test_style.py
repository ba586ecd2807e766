"""House style that a machine can check: docstrings, shapes, forbidden calls."""

from __future__ import annotations

import ast
import re
import subprocess

import pytest

from conventions.sources import REPOSITORY, ROOT, modules, room

FORBIDDEN = re.compile(
    r"(?<!safetensors\.)torch\.(load|save)\b|pickle|extractall|tarfile|yaml\.|shell=True|(?<![\w.])eval\(|(?<![\w.])exec\(|trust_remote_code|"
    r"np\.random\.(seed|rand|shuffle|permutation)|random\.seed"
)
# The one reader of pickles lists their instructions with `pickletools`, which runs nothing of them. Nobody loads one.
EXCEPTIONS = {"hub.foreign.description": ("pickletools",)}
WRITES = re.compile(r"""\.write_(text|bytes)\(|open\([^)]*["'][rwax]?[wax]b?\+?["']""")
SHAPE = re.compile(r"\[[a-z0-9_ ,+*|./-]+\]|`Batch`|Batch")


def public_definitions(tree: ast.Module) -> list[ast.AST]:
    """Public functions and classes of a module, and the public methods of its public classes."""
    found: list[ast.AST] = []
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    for node in tree.body:
        if isinstance(node, (*functions, ast.ClassDef)) and not node.name.startswith("_"):
            found.append(node)
        if isinstance(node, ast.ClassDef) and not any("Protocol" in ast.dump(base) for base in node.bases):
            found += [item for item in node.body if isinstance(item, functions) and not item.name.startswith("_")]
    return found


@pytest.mark.parametrize("module", list(modules()))
def test_everything_public_says_what_it_is(module: str):
    tree = modules()[module]
    assert ast.get_docstring(tree), f"{module} has no docstring"
    overrides = {"forward"}
    for node in public_definitions(tree):
        name = node.name  # type: ignore[attr-defined]
        if name not in overrides:
            assert ast.get_docstring(node), f"{module}.{name} has no docstring"  # type: ignore[arg-type]


@pytest.mark.parametrize("module", [name for name in modules() if room(name) in ("nn", "models")])
def test_public_functions_on_tensors_give_shapes(module: str):
    for node in public_definitions(modules()[module]):
        if not isinstance(node, ast.FunctionDef):
            continue
        takes = any("Tensor" in ast.dump(argument.annotation) for argument in node.args.args if argument.annotation)
        if takes:
            text = ast.get_docstring(node) or ""
            assert SHAPE.search(text), f"{module}.{node.name} takes a tensor and its docstring gives no shape"


@pytest.mark.parametrize("module", list(modules()))
def test_forbidden_calls_are_absent(module: str):
    text = (ROOT / (module.replace(".", "/") + ".py")).read_text(encoding="utf-8")
    code = "\n".join(line for line in text.split("\n") if not line.lstrip().startswith("#"))
    code = re.sub(r'""".*?"""', "", code, flags=re.DOTALL)
    code = re.sub(r'"[^"\n]*"|\'[^\'\n]*\'', lambda match: match[0] if len(match[0]) < 6 else '""', code)
    for allowed in EXCEPTIONS.get(module, ()):
        code = re.sub(rf"\b{allowed}\b", "", code)
    found = FORBIDDEN.search(code)
    assert not found, f"{module} uses {found[0] if found else ''}"
    if module not in ("core.storage", "core.locking"):  # the lock is no content
        writes = re.search(r"""(?<!storage)\.write_(text|bytes)\(|\bopen\([^)]*["'][wax]b?\+?["']""", code)
        assert not writes, (
            f"{module} writes on its own ({writes[0] if writes else ''}): core.storage is the only writer"
        )


def test_the_exceptions_are_used_and_used_in_one_way():
    """Of `pickletools` nothing but the listing of instructions."""
    calls = [
        ast.unparse(node)
        for node in ast.walk(modules()["hub.foreign.description"])
        if isinstance(node, ast.Attribute) and ast.unparse(node).startswith("pickletools")
    ]
    assert set(EXCEPTIONS) == {"hub.foreign.description"} and calls == ["pickletools.genops"]


def test_every_ignored_type_error_has_a_code_and_a_reason():
    reasoned = re.compile(r"# type: ignore\[[a-z, -]+\]  # \w")
    for path in ROOT.rglob("*.py"):
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
            if "type: ignore" in line:
                assert reasoned.search(line), f"{path.relative_to(ROOT)}:{number} ignores a type error without a reason"


def test_no_exception_is_swallowed_in_silence():
    for module, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ExceptHandler):
                silent = len(node.body) == 1 and isinstance(node.body[0], ast.Pass)
                assert not silent, f"{module}:{node.lineno} swallows an exception"


def test_every_registered_name_resolves():
    from maskwright.core import registry

    for kind, table in registry.TABLE.items():
        for name in table:
            assert registry.resolve(kind, name) is not None, f"{kind} '{name}'"


def test_the_public_namespace_is_what_it_says():
    import maskwright

    assert sorted(maskwright.__all__) == sorted(maskwright._WHERE)
    for name in maskwright.__all__:
        assert getattr(maskwright, name) is not None


def test_no_file_speaks_of_a_machine():
    listed = subprocess.run(["git", "ls-files"], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    paths = [REPOSITORY / name for name in listed.stdout.split("\n") if name.endswith((".py", ".md", ".toml", ".css"))]
    for path in paths:
        if path.exists() and path != REPOSITORY / "tests/conventions/test_style.py":
            found = re.search(r"(?<![\w.])/(work|root|home|tmp)/\w", path.read_text(encoding="utf-8"))
            assert not found, f"{path.relative_to(REPOSITORY)} names a path of one machine: {found}"
