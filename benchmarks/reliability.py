"""Kill runs of each kind of training many times and write what came of it to docs/reliability.md.

python benchmarks/reliability.py --kills 200      (what `make reliability` runs)
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from maskwright.core.storage import write_text

REPOSITORY = Path(__file__).parents[1]
HARNESS = REPOSITORY / "tests" / "reliability" / "crash_harness.py"
PAGE = REPOSITORY / "docs" / "reliability.md"
HEAD = """# Reliability, measured

Written by `benchmarks/reliability.py`; `make reliability` makes 200 kills of each kind. A run is killed with SIGKILL,
half of the times at a random moment and half inside a random disk operation (a write that is torn, a sync, a rename:
while tokenizing, sharding, saving, writing the report, exporting the model). Then the same command runs to its end.
The SHA-256 of its weights, and of its log without times, must equal those of a run that nobody disturbed. Dropout is
on, gradients are accumulated, and bfloat16 is used where the processor has it.
"""


def main() -> None:
    """Run the harness for each kind of run and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--finetune-kills", type=int, help="for all but pre-training; default: as many")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rows = []
    fewer = options.finetune_kills or options.kills
    for kind in ("pretrain", "finetune", "distill", "translation", "lstm", "bilm"):
        kills = options.kills if kind == "pretrain" else fewer
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, str(HARNESS), kind, "--kills", str(kills), "--folder", folder]
            result = subprocess.run(
                [*command, "--seed", str(options.seed)], stdout=subprocess.PIPE, text=True, check=True
            )
        found = json.loads(result.stdout)
        print(json.dumps(found))
        rows.append(found)
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=REPOSITORY, capture_output=True, text=True, check=False
    ).stdout.strip()
    write_text(PAGE, page(rows, commit))
    if any(row["failures"] for row in rows):
        sys.exit(1)


def page(rows: list[dict[str, object]], commit: str) -> str:
    """The page of these results."""
    table = [
        "| run | kills | runs that were killed | ended identical | disk operations of one run |",
        "| --- | --- | --- | --- | --- |",
    ]
    names = ("kind", "kills", "runs", "identical", "disk_operations")
    table += ["| " + " | ".join(str(row[name]) for name in names) + " |" for row in rows]
    failures = [f"- {failure}" for row in rows for failure in row["failures"]]  # type: ignore[attr-defined]
    machine = f"{platform.system()} {platform.machine()}, {rows[0]['threads']} threads"
    where = f"{time.strftime('%Y-%m-%d')}, commit {commit}, {machine}."
    return "\n".join([HEAD, where, "", *table, "", *failures]).rstrip() + "\n"


if __name__ == "__main__":
    main()
