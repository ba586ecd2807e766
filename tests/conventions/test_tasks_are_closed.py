"""A task is one package: outside `tasks` no code asks which task it is, except for the places listed here."""

from __future__ import annotations

import ast

import pytest

from conventions.sources import modules, room
from maskwright.core.registry import TABLE

NAMES = set(TABLE["task"])
CLASSES = {place.partition(":")[2] for place in TABLE["task"].values()}

HEAD = "names of heads, which have their own table in the registry and sometimes the names of tasks"
COMMAND = "the command and the function named similarity"
# Packages where the words mean something else throughout.
PACKAGES = {
    "hub": HEAD,
    "models": f"{HEAD}; in losses, problem types of transformers",
    "lessons": "each lesson is about one task",
}
# Number of places in other modules: at most these.
PLACES = {
    "__init__": (2, COMMAND),
    "api": (1, COMMAND),
    "cli.app": (1, COMMAND),
    "cli.predict": (1, "the option --choice"),
    "cli.similarity": (1, COMMAND),
    "cli.translate": (1, "a key of the JSON output"),
    "experiments.benchmark.parts": (8, "published benchmarks and their tasks, as data"),
    "experiments.ladder.run": (1, "the experiment compares classifiers"),
    "experiments.layers.run": (1, "the experiment probes layers by tagging"),
    "inference.answer": (1, "the Python face of question answering"),
    "inference.translate": (1, "the Python face of translation"),
    "serve.dialects.tei": (1, "a label in an answer"),
    "speed.plan_config": (1, "a training that `plan` estimates, with an objective that `pretrain` does not have"),
    "text.readers.choices": (1, "a column name"),
}
SUGGESTIONS = {"suggest": 1, "suggested_command": 0}  # functions with the argument that names a command


def places(tree: ast.Module) -> list[str]:
    """Quoted names of tasks, and isinstance checks of their classes, with line numbers."""
    found = []
    commands = set()
    for node in ast.walk(tree):
        name = getattr(node.func, "attr", getattr(node.func, "id", "")) if isinstance(node, ast.Call) else ""
        if name in SUGGESTIONS:
            commands |= {id(part) for part in node.args[SUGGESTIONS[name] :]}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node.value in NAMES and id(node) not in commands:
            found.append(f"line {node.lineno}: '{node.value}'")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
            named = {part.id for part in ast.walk(node.args[1]) if isinstance(part, ast.Name)}
            found += [f"line {node.lineno}: isinstance of {name}" for name in sorted(named & CLASSES)]
    return found


@pytest.mark.parametrize("module", [name for name in modules() if name != "core.registry"])
def test_nothing_outside_tasks_names_a_task(module: str):
    if room(module) in {"tasks", *PACKAGES}:
        return
    found = places(modules()[module])
    allowed = PLACES.get(module, (0, ""))[0]
    assert len(found) <= allowed, (
        f"{module} asks which task it is: {'; '.join(found)}. Let the task or its spec answer."
    )


def test_every_exception_is_needed():
    known = modules()
    assert set(PLACES) <= set(known) and all(places(known[name]) for name in PLACES)
