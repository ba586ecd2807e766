"""The flags of every command, frozen: removing or renaming one breaks someone's script, so it must be deliberate."""

import json
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import typer.main

from maskwright.cli.app import whole_app

FROZEN = Path(__file__).with_name("flags.json")


@cache
def commands() -> dict[str, Any]:
    """The commands that are no group, by their words."""

    def below(command: Any, path: str) -> Iterator[tuple[str, Any]]:
        children = getattr(command, "commands", {})
        for name, child in children.items():
            yield from below(child, f"{path} {name}".strip())
        if not children:
            yield path, command

    return dict(sorted(below(typer.main.get_command(whole_app()), "")))


def current_flags() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path, command in commands().items():
        names: list[str] = []
        for parameter in command.params:
            names += [option for option in parameter.opts if option.startswith("-")] or [parameter.name.upper()]
        found[path] = sorted(names)
    return found


def test_flags_are_what_they_were():
    flags = current_flags()
    if os.environ.get("UPDATE_FLAGS"):
        FROZEN.write_text(json.dumps(flags, indent=1) + "\n", encoding="utf-8")
    assert flags == json.loads(FROZEN.read_text(encoding="utf-8")), "run with UPDATE_FLAGS=1 if this is meant"


def test_flags_with_one_meaning_are_everywhere():
    for command, names in current_flags().items():
        assert {"--debug", "--quiet", "--json"} <= set(names), command
