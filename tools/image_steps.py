"""Run the RUN steps of the first stage of deploy/Dockerfile without Docker, in a folder.

python tools/image_steps.py FOLDER --index URL      (URL: the package index of torch for CPUs)

FOLDER/src takes the place of /src and FOLDER/opt that of /opt. COPY copies, ENV and ARG set variables, RUN runs with
`sh -e`. At the end the server of FOLDER/opt/maskwright prints its version, and the size of the installation is printed:
the image is that and its base. Python must be the version of the base image.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
DOCKERFILE = REPOSITORY / "deploy" / "Dockerfile"


def instructions(text: str) -> list[tuple[str, str]]:
    """Instructions and their arguments; continued lines are joined, comments left out."""
    lines = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    joined = lines.replace("\\\n", " ")
    return [(name, rest.strip()) for name, rest in re.findall(r"(?m)^([A-Z]+) (.+)$", joined)]


def first_stage(found: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The instructions after the first FROM and before the second."""
    starts = [number for number, (name, _) in enumerate(found) if name == "FROM"]
    return found[starts[0] + 1 : starts[1]]


def run(folder: Path, index: str) -> None:
    """Run the first stage in `folder`."""
    places = {"/src": folder / "src", "/opt/": folder / "opt"}
    environment = dict(os.environ)
    here = places["/src"]
    for place in places.values():
        place.mkdir(parents=True)
    for name, rest in first_stage(instructions(DOCKERFILE.read_text(encoding="utf-8"))):
        if name in ("ARG", "ENV"):
            for key, value in re.findall(r'(\w+)=("[^"]*"|\S*)', rest):
                environment[key] = value.strip('"')
            environment["TORCH_INDEX"] = index
        elif name == "COPY":
            *sources, target = rest.split()
            copy(sources, here, target)
        elif name == "RUN":
            command = rest.replace("/opt/", f"{places['/opt/']}/")
            print(f"RUN {rest}", flush=True)
            done = subprocess.run(["sh", "-e", "-c", command], cwd=here, env=environment, check=False)
            if done.returncode:
                sys.exit(f"error: exit code {done.returncode} of: RUN {rest}")
        elif name != "WORKDIR":
            sys.exit(f"error: {DOCKERFILE} has {name}, which this script cannot run.")


def copy(sources: list[str], here: Path, target: str) -> None:
    """Copy files or one folder of the repository, as COPY does."""
    for source in sources:
        path = REPOSITORY / source
        if path.is_dir():
            shutil.copytree(path, here / target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            place = here / target / path.name if target.endswith("/") else here / target
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, place)


def main() -> None:
    """Run, start the installed program, print the size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="new folder for the installation")
    parser.add_argument("--index", default="", help="package index of torch for CPUs")
    options = parser.parse_args()
    folder = options.folder.resolve()
    run(folder, options.index)
    installed = folder / "opt" / "maskwright"
    subprocess.run([installed / "bin" / "maskwright", "--version"], check=True)
    subprocess.run([installed / "bin" / "maskwright", "serve", "--help"], check=True, stdout=subprocess.DEVNULL)
    size = sum(one.stat().st_size for one in installed.rglob("*") if one.is_file() and not one.is_symlink())
    print(f"{installed}: {size / 1e6:,.0f} MB")


if __name__ == "__main__":
    main()
