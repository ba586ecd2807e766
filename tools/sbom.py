"""Write sbom.cdx.json, the CycloneDX bill of materials, from the locks: `python tools/sbom.py` (what `make sbom` runs).

Packages of the core are required, GPU libraries and what only the server needs are optional, those of the tests alone
are excluded from what is delivered. The file has no date and no random number: the same locks give the same bytes.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
import uuid
from dataclasses import dataclass
from pathlib import Path

from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY / "src"))

from maskwright.core.storage import write_text  # noqa: E402

SBOM = REPOSITORY / "sbom.cdx.json"
SCOPES = {
    "core": ComponentScope.REQUIRED,
    "torch": ComponentScope.OPTIONAL,
    "serve": ComponentScope.OPTIONAL,
    "test": ComponentScope.EXCLUDED,
}


@dataclass(frozen=True)
class Entry:
    """A package of a lock."""

    name: str
    version: str
    needed_by: tuple[str, ...]


def entries(lock: str) -> list[Entry]:
    """The packages of locks/LOCK.txt."""
    text = (REPOSITORY / "locks" / f"{lock}.txt").read_text(encoding="utf-8")
    found = re.findall(r"(?ms)^([\w.-]+)==(\S+)[^#]*# needed by ([^\n]*)$", text)
    return [Entry(name, version, tuple(needed.split(", "))) for name, version, needed in found]


def bill() -> Bom:
    """The bill of materials of the locks."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    own = Component(
        name=project["name"],
        version=project["version"],
        type=ComponentType.LIBRARY,
        bom_ref=project["name"],
        purl=PackageURL("pypi", name=project["name"], version=project["version"]),
        description=project["description"],
    )
    found: dict[str, Component] = {}
    needed: dict[str, set[str]] = {}
    for lock, scope in SCOPES.items():
        for entry in entries(lock):
            required = ComponentScope.REQUIRED if entry.name == "torch" else scope
            found.setdefault(
                entry.name,
                Component(
                    name=entry.name,
                    version=entry.version,
                    type=ComponentType.LIBRARY,
                    bom_ref=entry.name,
                    purl=PackageURL("pypi", name=entry.name, version=entry.version),
                    scope=required,
                ),
            )
            for user in entry.needed_by:
                needed.setdefault(user, set()).add(entry.name)
    pins = "\n".join(sorted(f"{one.name}=={one.version}" for one in found.values()))
    result = Bom(components=found.values(), serial_number=uuid.uuid5(uuid.NAMESPACE_URL, pins))
    result.metadata.component = own
    for user, names in needed.items():
        component = own if user == own.name else found.get(user)
        if component is not None:
            result.register_dependency(component, [found[name] for name in names])
    return result


def main() -> None:
    """Write the file, after it was checked against the CycloneDX schema."""
    made = bill()
    content = json.loads(JsonV1Dot6(made).output_as_string())
    del content["metadata"]["timestamp"]
    text = json.dumps(content, indent=1, sort_keys=True)
    error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if error is not None:
        sys.exit(f"error: the bill of materials does not follow its schema: {error}")
    write_text(SBOM, text + "\n")


if __name__ == "__main__":
    main()
