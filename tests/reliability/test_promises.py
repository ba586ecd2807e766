"""Every promise has its row, whose code and tests exist; its trials run; the page has the rows of today."""

from __future__ import annotations

import ast
import importlib.util
import json
import random
import sys
import tomllib

import pytest

from conventions.sources import REPOSITORY

FOLDER = REPOSITORY / "benchmarks" / "reliability"
PROMISES = tomllib.loads((FOLDER / "promises.toml").read_text(encoding="utf-8"))
COUNTS = {"R": 11, "D": 3, "S": 5, "V": 11, "C": 3}


@pytest.fixture(scope="module")
def run():
    """benchmarks/reliability/run.py as a module."""
    spec = importlib.util.spec_from_file_location("reliability_run", FOLDER / "run.py")
    module = importlib.util.module_from_spec(spec)
    before = list(sys.path)
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path[:] = before
    return module


def test_every_promise_has_a_row():
    assert set(PROMISES) == {f"{group}{number}" for group, count in COUNTS.items() for number in range(1, count + 1)}


@pytest.mark.parametrize("name", PROMISES)
def test_the_code_and_the_tests_of_a_promise_exist(name: str):
    row = PROMISES[name]
    assert set(row) <= {"promise", "code", "tests", "measure", "missing", "counts", "says"}
    assert row["tests"] or row.get("missing") or name == "C3", "no test, and nothing said of it"
    for path in row["code"]:
        assert (REPOSITORY / path).is_file(), path
    for test in row["tests"]:
        file, _, function = test.partition("::")
        found = {one.name for one in ast.walk(tree(file)) if isinstance(one, ast.FunctionDef)}
        assert not function or function in found, test


def tree(file: str) -> ast.Module:
    return ast.parse((REPOSITORY / file).read_text(encoding="utf-8"))


def test_every_measure_is_counted_and_every_count_is_shown(run):
    named = {one for row in PROMISES.values() for one in row.get("measure", "").split(", ") if one}
    assert named == {*run.TRIALS, "kills", "repeats"}


@pytest.mark.parametrize("name", ["damage", "configs", "headers", "unicode", "rows"])
def test_a_few_trials_of_each_kind_keep_the_promise(run, name: str):
    found = run.TRIALS[name][0](18, random.Random(5))
    assert found["failures"] == []
    assert found["figure"].startswith("18 ")


def test_a_broken_promise_is_counted(run):
    from trials import Counted

    counted = Counted()
    counted.try_one("a", lambda: str(1 // int("0")))
    found = counted.to_json("{trials} trials, {crashed} crashes")
    assert found["figure"] == "1 trials, 1 crashes" and "ZeroDivisionError" in found["failures"][0]


def test_the_page_has_the_rows_of_today(run):
    results = json.loads((FOLDER / "results.json").read_text(encoding="utf-8"))
    text = (REPOSITORY / "docs" / "results" / "reliability.md").read_text(encoding="utf-8")
    assert text == run.page(PROMISES, results), "run benchmarks/reliability/run.py --page"


def test_a_page_shows_failures_and_what_was_renamed(run):
    cases = {test: {"passed": 3, "failed": 1, "skipped": 0} for row in PROMISES.values() for test in row["tests"][1:]}
    counted = {name: {"figure": "9 things", "failures": ["it broke"]} for name in (*run.TRIALS, "kills", "repeats")}
    measured = dict.fromkeys(PROMISES, "today") | {"V1": "tomorrow"}
    found = {"measured": measured, "counted": counted, "kills": [], "cases": cases, "times": {}}
    text = run.page(PROMISES, found)
    assert "\n- V1: tomorrow\n" in text and "\n- R1, R2, " in text
    assert "- it broke" in text and "6 test cases passed, 2 failed" in text and "0 test cases passed" in text
