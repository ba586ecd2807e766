"""Commands that reports, model cards and messages suggest are derived from the settings of the command line."""

import ast
import re
import shlex
from pathlib import Path

import pytest
import typer.main

from conventions.sources import paths, room
from maskwright.cli.app import whole_app
from maskwright.core import registry
from maskwright.core.config import suggested_command
from maskwright.core.errors import ConfigError
from maskwright.hub import card
from maskwright.tasks.specs import readers_of
from maskwright.train.pretraining.health import next_steps

FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
MODEL = Path("runs/my model")


@pytest.fixture(scope="module")
def root():
    return typer.main.get_command(whole_app())


def command_at(root, words):
    words = list(words)
    while getattr(root, "commands", None) is not None and words and words[0] in root.commands:
        root, words = root.commands[words[0]], words[1:]
    return root, words


def check_parses(root, line):
    """Parses a shell command with the real command line, without running it."""
    program, *words = shlex.split(line)
    assert program == "maskwright"
    command, rest = command_at(root, words)
    assert command is not root and getattr(command, "commands", None) is None, line
    command.make_context(command.name, rest)


def test_a_suggestible_command_has_the_settings_of_the_command_line():
    real = {one.name: one.callback.settings for one in whole_app().registered_commands}
    for name in registry.names("command"):
        cls = registry.resolve("command", name)
        assert cls in real[name] and name == cls.COMMAND


@pytest.mark.parametrize("task", registry.names("task"))
def test_the_commands_after_fine_tuning_parse(task, root):
    cls = registry.resolve("task", task)
    report = registry.load(cls.report)(cls, None)
    steps = report.next_steps(MODEL, readers_of(task)[0].example_file)
    assert len(steps) >= 2 and all(step.about for step in steps)
    for step in steps:
        assert shlex.quote(str(MODEL)) in step.command
        check_parses(root, step.command)


def test_the_commands_after_pretraining_and_of_model_cards_parse(root):
    for objective in registry.names("objective"):
        steps = next_steps(objective, MODEL)
        assert "maskwright finetune" in steps[-1].command
        for step in steps:
            check_parses(root, step.command)
    for head in [None, *registry.names("head")]:
        check_parses(root, suggested_command(model="this-folder", **card._HEADS[head][2]))


def test_an_unknown_command_or_setting_is_an_error():
    with pytest.raises(ConfigError, match="Did you mean 'predict'"):
        suggested_command("predictt", model="m")
    with pytest.raises(ConfigError, match="Did you mean|Unknown setting"):
        suggested_command("predict", model="m", text="a")


def texts_of(tree):
    """Strings of a module other than docstrings, joined parts as one text, with their lines."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else "{}" for part in node.values]
            yield node.lineno, "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and not {id(node)} & (docstrings | inner):
            yield node.lineno, node.value


FIRST = {"cli.app"}  # the first command of a new user, in the help of the root command


def test_commands_in_texts_exist_and_none_is_written_by_hand(root):
    """A sentence may name a command; a whole command line is made from its settings."""
    for module, path in paths().items():
        source = path.read_text(encoding="utf-8")
        tree = ast.parse(source) if re.search(r"maskwright [a-z]", source) else ast.Module([], [])
        for line, text in texts_of(tree):
            for found in re.finditer(r"maskwright ((?:[a-z][a-z-]+ ?)+)([^`;]*)", text):
                command, rest = command_at(root, found[1].split())
                if command is root:
                    continue  # prose
                known = {option for one in command.params for option in (*one.opts, *one.secondary_opts)}
                unknown = set(FLAG.findall(" ".join((*rest, found[2])))) - known
                assert not unknown, f"{module} line {line}: {found[0]} has no {unknown}"
                is_command_line = found.start() == 0 and (rest or found[2]) and not text.rstrip().endswith(".")
                assert not is_command_line or module in FIRST or room(module) == "lessons", (
                    f"{module} line {line}: '{text}' is written by hand. Use suggested_command or Command.suggest."
                )
