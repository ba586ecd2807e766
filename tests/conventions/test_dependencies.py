"""Dependencies: the extras that are promised, a reason for each package, a pin for what the targets install."""

import ast
import re
import tomllib

from conventions.sources import REPOSITORY, ROOT

PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]


def package(requirement: str) -> str:
    return re.split(r"[\[<>=!~;\s]", requirement)[0]


def normal(name: str) -> str:
    """A name as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_requirement_has_a_lower_bound_and_a_reason():
    page = normal((REPOSITORY / "docs" / "explanation" / "dependencies.md").read_text(encoding="utf-8"))
    for requirement in [*PROJECT["dependencies"], *(one for extra in EXTRAS.values() for one in extra)]:
        name = package(requirement)
        if name != "maskwright":
            assert ">=" in requirement, requirement
            assert re.search(rf"(?<![\w-]){re.escape(normal(name))}(?![\w-])", page), f"{name} has no reason"


def test_what_the_targets_of_make_install_is_pinned():
    lines = (REPOSITORY / "constraints.txt").read_text(encoding="utf-8").split()
    assert all("==" in line for line in lines)
    pinned = {normal(line.split("==")[0]) for line in lines}
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    installed = set(re.findall(r"-e '\.\[(\w+)\]'", makefile))
    assert {"test", "dev", "bench"} <= installed
    for requirement in [*PROJECT["dependencies"], *(one for extra in installed for one in EXTRAS[extra])]:
        assert normal(package(requirement)) in pinned, f"{requirement} is installed by make and not pinned"


def test_an_error_names_an_extra_that_exists():
    named = {
        node.args[1].value
        for path in ROOT.rglob("*.py")
        if "MissingExtraError(" in (text := path.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "MissingExtraError"
        if isinstance(node.args[1], ast.Constant)
    }
    assert {"data", "hub"} <= named <= set(EXTRAS)
