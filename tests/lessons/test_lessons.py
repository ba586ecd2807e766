"""Every lesson of the lectures: its numbers hold, it has all that a lesson needs, and it breaks with its function."""

import ast
import json
import re

import pytest

from conventions.sources import REPOSITORY
from lessons.breaking import UNSPOILED, break_function
from maskwright.lessons.catalog import lesson, lessons
from maskwright.lessons.lesson import find
from maskwright.lessons.recorder import LessonRecorder
from maskwright.lessons.running import run
from maskwright.lessons.topics import words

NAMES = list(lessons())
FUNCTIONS = [(name, function) for name, one in lessons().items() for function in one.functions]
LONGEST = ("complexity", "side-by-side", "rome")
# More than a second with a broken function.
LONG = (*LONGEST, "bert-sizes", "cls-sees-all", "sinusoids", "task-scores", "why-scale")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in LONGEST else []) for name in NAMES]
)
def test_every_number_of_a_lesson_holds_and_it_is_complete(name: str):
    result, one = run(name), lesson(name)
    assert result.error is None and result.ok
    assert [check for check in result.checks if not check.ok] == [] and one.question.endswith("?")
    assert len(one.about) > 60 and len(result.answer) > 60
    assert result.pictures and all(block.html() for block in result.pictures)
    assert one.functions and all(code.text.lstrip().startswith(("def ", "@", "class ")) for code in result.code)
    assert len(result.checks) >= 2
    facts = json.loads(json.dumps(result.to_json()))
    assert facts["ok"] is True and len(facts["checks"]) == len(result.checks)
    for sentence in re.split(r"(?<=[.?!]) (?=[A-Z])", result.answer):
        for page in re.findall(r"docs/[\w/-]+\.md", sentence):
            text = (REPOSITORY / page).read_text(encoding="utf-8")
            for figure in re.findall(r"\d+(?:[.,]\d+)*%?", sentence.replace(page, "")):
                assert figure in text, f"{figure} is not on {page}"


@pytest.mark.parametrize(
    ("name", "function"),
    [
        pytest.param(a, b, id=f"{a}-{b.rpartition(':')[2]}", marks=[pytest.mark.slow] if a in LONG or n else [])
        for a in NAMES
        for n, b in enumerate(one for one in lesson(a).functions if one not in UNSPOILED)
    ],
)
def test_a_lesson_fails_when_its_function_is_broken(monkeypatch: pytest.MonkeyPatch, name: str, function: str):
    break_function(monkeypatch, function)
    assert not run(name).ok


COMPUTED = {"equal": 2, "near": 2, "off": 3, "holds": 3, "same": 2}  # the argument of a check that must be computed


def test_every_check_compares_a_computed_value():
    """A constant in that place is a result that was written down."""
    found = 0
    for path in sorted((REPOSITORY / "src/maskwright/lessons/topics").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            place = COMPUTED.get(node.func.attr)
            if place is None or ast.unparse(node.func.value) != "record":
                continue
            found += 1
            computed = node.args[place]
            is_computed = any(isinstance(part, ast.Name | ast.Call) for part in ast.walk(computed))
            assert is_computed, f"{path.name}:{node.lineno}: {ast.unparse(computed)} is a constant"
    assert found > 300


def test_each_lesson_names_functions_of_the_toolkit_that_exist():
    for name, function in FUNCTIONS:
        owner, last = find(function)
        assert callable(getattr(owner, last)), f"{name} names {function}"
        assert "lessons.topics" not in function, f"{name} computes with a function of a lesson: {function}"


def test_a_lesson_that_raises_has_failed_and_says_why(monkeypatch: pytest.MonkeyPatch):
    def stop(record: LessonRecorder) -> None:
        record.equal("one", 1, 1)
        raise ValueError("no more chalk")

    monkeypatch.setattr(words, "lesson_four_issues", stop)
    result = run("four-issues")
    assert not result.ok and result.error == "ValueError: no more chalk" and len(result.checks) == 1


def test_the_page_of_the_documentation_names_every_lesson_and_no_other():
    page = (REPOSITORY / "docs" / "tutorials" / "lectures.md").read_text(encoding="utf-8")
    table = page.partition("| part | lessons |")[2].partition("## ")[0]
    assert re.findall(r"`([^`]+)`", table) == NAMES
    guide = (REPOSITORY / "docs" / "explanation" / "background.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([a-z0-9]+(?:-[a-z0-9]+)+)`", guide))
    assert named & set(NAMES) == named - {"gpt2-xl"}, "the guide names a lesson that is not there"
