"""The locks and the bill of materials are those of today's requirements and pins."""

import json
import re
import tomllib

from conventions.sources import REPOSITORY
from conventions.test_dependencies import normal, package

PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
NAMES = ("core", "serve", "test", "torch", "torch-cpu")
STALE = "run make locks"


def locked(name: str) -> dict[str, str]:
    """Version by package of locks/NAME.txt; each must have the hash of a file."""
    text = (REPOSITORY / "locks" / f"{name}.txt").read_text(encoding="utf-8")
    body = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("#"))
    entry = r"([\w.-]+)==(\S+)( ; [^\\\n]+)?( \\\n    --hash=sha256:[0-9a-f]{64})+\n    # needed by [^\n]+\n"
    assert re.fullmatch(f"({entry})+", body), f"locks/{name}.txt has a line of another form"
    return {normal(found[1]): found[2] for found in re.finditer(entry, body)}


LOCKED = {name: locked(name) for name in NAMES}


def test_locked_versions_are_the_pinned_ones():
    lines = (REPOSITORY / "constraints.txt").read_text(encoding="utf-8").split()
    pinned = {normal(line.split("==")[0]): line.split("==")[1] for line in lines}
    for found, version in [one for name in NAMES for one in LOCKED[name].items()]:
        assert version.partition("+")[0] == pinned.get(found, version), f"{found}: {STALE}"


def test_the_locks_have_what_is_required():
    core = {normal(package(one)) for one in PROJECT["dependencies"]}
    extras = PROJECT["optional-dependencies"]
    serve, test = ({normal(package(one)) for one in extras[name]} for name in ("serve", "test"))
    assert core - {"torch"} <= set(LOCKED["core"]), STALE
    assert core - {"torch"} | serve <= set(LOCKED["serve"]), STALE
    assert core - {"torch"} | test <= set(LOCKED["test"]), STALE
    assert LOCKED["core"].items() <= LOCKED["serve"].items(), STALE
    assert LOCKED["core"].items() <= LOCKED["test"].items(), STALE
    assert list(LOCKED["torch-cpu"]) == ["torch"] and "torch" in LOCKED["torch"]
    assert LOCKED["torch-cpu"]["torch"] == LOCKED["torch"]["torch"] + "+cpu", STALE
    for name in ("core", "serve", "test"):
        assert not [one for one in LOCKED[name] if re.match(r"torch\b|nvidia-|cuda-|triton", one)]


def test_the_bill_of_materials_is_that_of_the_locks():
    found = json.loads((REPOSITORY / "sbom.cdx.json").read_text(encoding="utf-8"))
    assert (found["bomFormat"], found["specVersion"]) == ("CycloneDX", "1.6")
    own = found["metadata"]["component"]
    assert (own["name"], own["version"]) == (PROJECT["name"], PROJECT["version"]), "run make sbom"
    components = {one["name"]: (one["version"], one["scope"]) for one in found["components"]}
    expected = {name: (version, "excluded") for name, version in LOCKED["test"].items()}
    expected |= {name: (version, "optional") for name, version in (LOCKED["serve"] | LOCKED["torch"]).items()}
    expected |= {name: (version, "required") for name, version in LOCKED["core"].items()}
    expected["torch"] = (LOCKED["torch"]["torch"], "required")
    assert components == expected, "run make sbom"
    (needed,) = (one["dependsOn"] for one in found["dependencies"] if one["ref"] == PROJECT["name"])
    assert {normal(package(one)) for one in PROJECT["dependencies"]} <= set(needed)
