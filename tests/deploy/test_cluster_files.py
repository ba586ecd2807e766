"""The files for clusters: they parse, and their commands have the options that exist."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from typing import Any

import pytest

from conventions.sources import REPOSITORY

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
DEPLOY = REPOSITORY / "deploy"
FLAGS: dict[str, list[str]] = json.loads((REPOSITORY / "tests/conventions/flags.json").read_text(encoding="utf-8"))
SCRIPT = (DEPLOY / "slurm.sh").read_text(encoding="utf-8")
JOB = yaml.safe_load((DEPLOY / "pytorchjob.yaml").read_text(encoding="utf-8"))
RAY = yaml.safe_load((DEPLOY / "rayjob.yaml").read_text(encoding="utf-8"))


def containers(found: Any) -> list[dict[str, Any]]:
    """All containers, wherever they are."""
    if isinstance(found, dict):
        own = found.get("containers", [])
        return [*own, *(one for key, value in found.items() if key != "containers" for one in containers(value))]
    return [one for value in found for one in containers(value)] if isinstance(found, list) else []


def commands() -> dict[str, list[str]]:
    """The words after `maskwright` in each file."""
    (line,) = re.findall(r"-m (maskwright .*)", SCRIPT.replace("\\\n", " "))
    job = containers(JOB)[0]
    words = {"slurm.sh": shlex.split(line), "rayjob.yaml": shlex.split(RAY["spec"]["entrypoint"])}
    words["pytorchjob.yaml"] = [*job["command"], *job["args"]]
    return {name: found[found.index("maskwright") + 1 :] for name, found in words.items()}


@pytest.mark.parametrize("name", ["slurm.sh", "pytorchjob.yaml", "rayjob.yaml"])
def test_the_options_exist(name: str):
    words = commands()[name]
    command = " ".join(words[:2]) if " ".join(words[:2]) in FLAGS else words[0]
    given = [word for word in words if re.fullmatch(r"-{1,2}[a-z][a-z-]*", word)]
    assert given and set(given) <= set(FLAGS[command])


def test_the_script_is_bash():
    shell = shutil.which("bash")
    if shell is None:
        pytest.skip("bash is not installed")
    done = subprocess.run([shell, "-n", str(DEPLOY / "slurm.sh")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
