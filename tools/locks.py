"""Write locks/*.txt: every package that the core and the tests need, with its version and the SHA-256 of its files.

python tools/locks.py [--cpu-wheels FOLDER]      (what `make locks` runs; needs uv)

core.txt, serve.txt, test.txt   all packages but torch: of the core, of the server, of the tests
torch.txt                       torch as the package index has it, and the GPU libraries that it needs on Linux
torch-cpu.txt                   the builds of torch for CPUs in FOLDER; without the option the file stays as it is

Versions are those of constraints.txt; a package that it does not pin keeps the version of the present lock.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY / "src"))

from maskwright.core.storage import sha256, write_text  # noqa: E402

LOCKS = REPOSITORY / "locks"
EXTRAS = {"core": (), "serve": ("serve",), "test": ("test",)}
OF_TORCH = re.compile(r"(torch|nvidia|cuda|triton)\b")
HEAD = """# Written by tools/locks.py (make locks); do not edit.
#
# pip install --require-hashes -r locks/{first}.txt -r locks/{second}.txt && pip install --no-deps .
"""


@dataclass(frozen=True)
class Locked:
    """One package. pin: "name==version"; marker: for which machines, "" for all; hashes: SHA-256 of its files;
    needed_by: names of the packages that require it.
    """

    pin: str
    marker: str
    hashes: tuple[str, ...]
    needed_by: tuple[str, ...]

    def __str__(self) -> str:
        first = self.pin + (f" ; {self.marker}" if self.marker else "")
        hashes = (f"    --hash=sha256:{one}" for one in self.hashes)
        return " \\\n".join([first, *hashes]) + f"\n    # needed by {', '.join(self.needed_by)}\n"


def main() -> None:
    """Resolve, split off torch, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cpu-wheels", type=Path, help="folder of torch's wheels for CPUs: torch-VERSION+cpu-*.whl")
    options = parser.parse_args()
    found = {name: resolved(extras) for name, extras in EXTRAS.items()}
    for name, packages in found.items():
        write_lock(name, [one for one in packages if not OF_TORCH.match(one.pin)], name, "torch")
    of_torch = [one for one in found["core"] if OF_TORCH.match(one.pin)]
    (torch,) = (one for one in of_torch if one.pin.startswith("torch=="))
    write_lock("torch", of_torch, "core", "torch")
    pin, present = f"{torch.pin}+cpu", LOCKS / "torch-cpu.txt"
    if options.cpu_wheels is not None:
        wheels = sorted(options.cpu_wheels.glob(f"{pin.replace('==', '-')}-*.whl"))
        if not wheels:
            sys.exit(f"error: {options.cpu_wheels} has no wheel of {pin}: pass the folder that has them.")
        write_lock("torch-cpu", [Locked(pin, "", tuple(map(sha256, wheels)), torch.needed_by)], "core", "torch-cpu")
    elif not present.exists() or f"\n{pin} " not in present.read_text(encoding="utf-8"):
        sys.exit(f"error: {present} is not for {pin}: pass --cpu-wheels FOLDER.")


def write_lock(name: str, packages: list[Locked], first: str, second: str) -> None:
    """Write locks/NAME.txt. first, second: the two locks that its head shows together."""
    write_text(LOCKS / f"{name}.txt", HEAD.format(first=first, second=second) + "".join(map(str, packages)))


def resolved(extras: tuple[str, ...]) -> list[Locked]:
    """What uv resolves for the core and some extras, by name."""
    command = [
        "uv",
        "pip",
        "compile",
        "pyproject.toml",
        "-c",
        "constraints.txt",
        "--universal",
        "--python-version=3.11",
    ]
    command += ["--generate-hashes", "--no-header", "--quiet", *(f"--extra={extra}" for extra in extras)]
    for name in (*EXTRAS, "torch"):
        command += ["-c", f"locks/{name}.txt"] if (LOCKS / f"{name}.txt").exists() else []
    text = subprocess.run(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True, check=True).stdout
    found = []
    for entry in filter(str.strip, re.split(r"(?m)^(?=\w)", text)):
        pin, _, marker = entry.partition("\n")[0].rstrip("\\ ").partition(" ; ")
        needed = (line.removeprefix("    #").removeprefix(" via").strip() for line in entry.splitlines() if "#" in line)
        names = (one.partition(" ")[0] for one in needed if one and not one.startswith("-c "))
        found.append(Locked(pin, marker, tuple(re.findall(r"--hash=sha256:(\w+)", entry)), tuple(names)))
    return found


if __name__ == "__main__":
    main()
