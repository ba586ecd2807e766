"""Count what the promises of reliability are worth, and write docs/results/reliability.md.

python benchmarks/reliability/run.py [--quick | --share 0.1] [V1 V4 ...]      (what `make reliability` runs)

promises.toml has a row for every promise: its code, its tests, and what is counted for it. The full counts are 200
kills of each kind of training, 20 repeats, 10,000 damaged folders, 5,000 configurations and headers, 1,000,000 texts,
10,000 tables, and in the tests of the server 100 stops under load, 10,000 requests from the schema, 6,000 mutations and
100,000 requests for the memory. --share takes a fraction of each, but for counts of tests that the environment sets;
--quick skips the slow tests and takes 0.02 unless --share says otherwise. Rows that are named are counted alone; the
others keep their figures in results.json. After a change of promises.toml, --page writes the page again from it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
sys.path[:0] = [str(HERE), str(HERE.parent), str(REPOSITORY / "tests"), str(REPOSITORY / "src")]

from tables import commit  # noqa: E402
from trials import TRIALS  # noqa: E402

from maskwright.core.storage import write_json, write_text  # noqa: E402

PROMISES = HERE / "promises.toml"
RESULTS = HERE / "results.json"
HARNESS = REPOSITORY / "tests" / "reliability" / "crash_harness.py"
PAGE = REPOSITORY / "docs" / "results" / "reliability.md"
KILLED = ("pretrain", "finetune", "distill", "translation", "lstm", "bilm", "search")
KILLS, REPEATS, QUICK = 200, 20, 0.02
# Environment variables of tests that count, with their full counts.
COUNTED_BY_TESTS = {"MASKWRIGHT_FUZZ": 20, "MASKWRIGHT_STOPS": 100, "MASKWRIGHT_MEMORY_REQUESTS": 100_000}
HEAD = """# Reliability

Written by `benchmarks/reliability/run.py` (`make reliability`); do not edit. For each guarantee, the table lists
the code, the tests with the number of passed cases, and measured figures. *Not yet* marks what is not measured.
"""
KILL_NOTE = """
## Kills

Runs are killed with SIGKILL, half of them at a random moment and half inside a random disk operation (a torn write,
a sync, a rename: while tokenizing, sharding, saving, writing the report, exporting the model). The same command
then resumes to the end. The SHA-256 of the weights, and of the log without times, must equal those of an
uninterrupted run. Dropout and gradient accumulation are on, and bfloat16 is used if the CPU supports it.
"""


def main() -> None:
    """Count, test, write the page. Exit code 1 where a promise is not kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW", help="rows to count, such as V1 (default: all)")
    parser.add_argument("--share", type=float, help="fraction of the full counts (default: 1)")
    parser.add_argument("--quick", action="store_true", help=f"skip the slow tests; default of --share: {QUICK}")
    parser.add_argument("--seed", type=int, default=0, help="of all random trials (default: 0)")
    parser.add_argument("--page", action="store_true", help="count nothing: write the page again from results.json")
    options = parser.parse_args()
    promises, results = promises_now(), earlier_results()
    if unknown := sorted(set(options.rows) - set(promises)):
        parser.error(f"there is no row {', '.join(unknown)}; there are {', '.join(promises)}")
    chosen = {name: row for name, row in promises.items() if name in (options.rows or promises)}
    share = options.share or (QUICK if options.quick else 1.0)
    failed = [] if options.page else count(chosen, results, share, options)
    write_text(PAGE, page(promises, results))
    print("\n".join(failed))
    sys.exit(1 if failed else 0)


def earlier_results() -> dict[str, Any]:
    """What results.json has: the figures that are not counted now stay."""
    empty: dict[str, Any] = {"measured": {}, "counted": {}, "kills": [], "cases": {}, "times": {}}
    return empty | (json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {})


def count(chosen: dict[str, Any], results: dict[str, Any], share: float, options: argparse.Namespace) -> list[str]:
    """Count and test for the chosen rows, and write results.json; returns the failures."""
    measures = {one for row in chosen.values() for one in row.get("measure", "").split(", ") if one}
    counted = {
        name: TRIALS[name][0](part(TRIALS[name][1], share), random.Random(options.seed))
        for name in TRIALS
        if name in measures
    }
    for name, found in counted.items():
        print(f"{name}: {found['figure']}", flush=True)
    if measures & {"kills", "repeats"}:
        results["kills"] = [kill(kind, share, options.seed) for kind in KILLED]
        counted |= of_kills(results["kills"])
    cases = run_tests(sorted({test for row in chosen.values() for test in row["tests"]}), share, options.quick)
    named = {row["counts"] for row in chosen.values() if "counts" in row and not options.quick}
    results["times"] |= {name: number for name, number in counts_of_tests(share).items() if name in named}
    results["counted"] |= counted
    results["cases"] |= cases
    results["measured"] |= dict.fromkeys(chosen, measured_on(share))
    write_json(RESULTS, results)
    failed = [f"{name}: {one}" for name, found in counted.items() for one in found["failures"]]
    return failed + [f"{name}: {found['failed']} cases failed" for name, found in cases.items() if found["failed"]]


def promises_now() -> dict[str, Any]:
    """Return the rows of promises.toml."""
    return tomllib.loads(PROMISES.read_text(encoding="utf-8"))


def part(full: int, share: float) -> int:
    """A fraction of a full count, at least 2."""
    return max(2, round(full * share))


def counts_of_tests(share: float) -> dict[str, int]:
    """How much the tests count: what the environment says, or a fraction of the full counts."""
    return {name: int(os.environ.get(name) or part(full, share)) for name, full in COUNTED_BY_TESTS.items()}


def kill(kind: str, share: float, seed: int) -> dict[str, Any]:
    """What the crash harness finds for one kind of training, in a process that has touched no tensor."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(HARNESS), kind, "--folder", folder, "--seed", str(seed)]
        command += ["--kills", str(part(KILLS, share)), "--repeats", str(part(REPEATS, share))]
        result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment())
    print(result.stdout.strip(), flush=True)
    return json.loads(result.stdout)


def of_kills(kills: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The figures of all kinds together."""
    sums = {name: sum(row[name] for row in kills) for name in ("kills", "runs", "identical", "repeats", "repeated")}
    failures = [f"{row['kind']}: {failure}" for row in kills for failure in row["failures"]]
    killed = f"{sums['kills']} kills: {sums['identical']} of {sums['runs']} killed runs ended identical"
    repeated = f"{sums['repeated']} of {sums['repeats']} repeated runs identical"
    return {"kills": {"figure": killed, "failures": failures}, "repeats": {"figure": repeated, "failures": []}}


def run_tests(tests: list[str], share: float, is_quick: bool) -> dict[str, dict[str, int]]:
    """Passed, failed and skipped cases of each test."""
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "junit.xml"
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            f"--junitxml={found}",
            *(["-m", "not slow"] if is_quick else []),
        ]
        variables = environment() | {name: str(count) for name, count in counts_of_tests(share).items()}
        subprocess.run([*command, *tests], cwd=REPOSITORY, check=False, env=variables, stdout=sys.stderr)
        cases = list(ElementTree.parse(found).iter("testcase"))
    counts = {}
    for test in tests:
        file, _, name = test.partition("::")
        module = file.removesuffix(".py").replace("/", ".")
        of_file = [one for one in cases if one.get("classname") == module]
        own = [one for one in of_file if not name or one.attrib["name"].partition("[")[0] == name]
        failed = sum(one.find("failure") is not None or one.find("error") is not None for one in own)
        skipped = sum(one.find("skipped") is not None for one in own)
        counts[test] = {"passed": len(own) - failed - skipped, "failed": failed, "skipped": skipped}
    return counts


def environment() -> dict[str, str]:
    """For processes that import this tree."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(REPOSITORY / "src"), str(REPOSITORY / "tests")])}


def page(promises: dict[str, Any], results: dict[str, Any]) -> str:
    """The page of what `main` wrote to results.json."""
    counted, kills, cases = results["counted"], results["kills"], results["cases"]
    lines = ["| # | guarantee | code | tests | figure |", "| --- | --- | --- | --- | --- |"]
    lines += [row_of(name, promise, counted, cases, results["times"]) for name, promise in promises.items()]
    names = ("kind", "kills", "runs", "identical", "repeats", "repeated", "disk_operations")
    table = ["| " + " | ".join(("run", *names[1:-1], "disk operations of one run")) + " |", "| --- " * len(names) + "|"]
    table += ["| " + " | ".join(str(row[name]) for name in names) + " |" for row in kills]
    failures = [f"- {one}" for found in counted.values() for one in found["failures"]]
    failed = ["", "## Failures", "", *failures] if failures else []
    runs = {
        run: [name for name in promises if results["measured"].get(name) == run] for run in results["measured"].values()
    }
    measured = [f"- {', '.join(rows)}: {run}" for run, rows in runs.items()]
    return "\n".join([HEAD, *measured, "", *lines, *failed, KILL_NOTE, *table]) + "\n"


def row_of(
    name: str, promise: dict[str, Any], counted: dict[str, Any], cases: dict[str, dict[str, int]], times: dict[str, int]
) -> str:
    """One line of the table."""
    figures = []
    known = [cases[test] for test in promise["tests"] if test in cases]  # not those that were renamed since
    sums = {kind: sum(one[kind] for one in known) for kind in ("passed", "failed", "skipped")}
    if promise["tests"]:
        others = "".join(f", {sums[kind]:,} {kind}" for kind in ("failed", "skipped") if sums[kind])
        figures.append(f"{sums['passed']:,} test cases passed{others}")
    if "measure" in promise:
        figures += [counted[one]["figure"] for one in promise["measure"].split(", ")]
    count = times.get(promise.get("counts", ""))
    if "says" in promise and (count or "counts" not in promise) and not sums["failed"]:
        figures.append(promise["says"].format(count))
    if "missing" in promise:
        figures.append(f"*not yet*: {promise['missing']}")
    code, tests = (", ".join(f"`{one}`" for one in promise[kind]) for kind in ("code", "tests"))
    return f"| {name} | {promise['promise']} | {code} | {tests} | {'; '.join(figures)} |"


def measured_on(share: float) -> str:
    """Date, commit, machine, and how much of the full counts this is."""
    threads = os.environ.get("OMP_NUM_THREADS") or os.cpu_count()
    machine = f"{platform.system()} {platform.machine()}, {threads} threads, Python {platform.python_version()}"
    counts = "full counts" if share == 1 else f"{share:.0%} of the full counts"
    return f"{time.strftime('%Y-%m-%d')}, commit {commit() or 'unknown'}, {machine}; {counts}."


if __name__ == "__main__":
    main()
