"""The flags of every command, frozen: removing or renaming one breaks someone's script, so it must be deliberate."""

from __future__ import annotations

import json
import os
from pathlib import Path

from maskwright.cli.app import whole_app

FROZEN = Path(__file__).with_name("flags.json")


def current_flags() -> dict[str, list[str]]:
    """Option names and arguments by command."""
    import typer.main

    found: dict[str, list[str]] = {}

    def visit(command: object, path: str) -> None:
        children = getattr(command, "commands", None)
        if children:
            for name, child in children.items():
                visit(child, f"{path} {name}".strip())
            return
        names = []
        for parameter in command.params:  # type: ignore[attr-defined]
            names += [option for option in parameter.opts if option.startswith("-")] or [parameter.name.upper()]
        found[path] = sorted(names)

    visit(typer.main.get_command(whole_app()), "")
    return dict(sorted(found.items()))


def test_flags_are_what_they_were():
    flags = current_flags()
    if os.environ.get("UPDATE_FLAGS"):
        FROZEN.write_text(json.dumps(flags, indent=1) + "\n", encoding="utf-8")
    assert flags == json.loads(FROZEN.read_text(encoding="utf-8")), "run with UPDATE_FLAGS=1 if this is meant"


def test_flags_with_one_meaning_are_everywhere():
    for command, names in current_flags().items():
        assert {"--debug", "--quiet", "--json"} <= set(names), command
