"""Command groups: default commands, earlier names, and the panels of `maskwright --help`."""

from __future__ import annotations

import re

import pytest
import typer.main

from maskwright.cli.app import COMMANDS, whole_app
from maskwright.cli.groups import RENAMED


@pytest.mark.parametrize("old", RENAMED)
def test_an_earlier_name_runs_the_command_and_names_the_new_one_once(old, maskwright):
    new = RENAMED[old]
    code, out, err = maskwright(old, "--help")
    expected = maskwright(*new, "--help")
    assert (code, out) == expected[:2] and code == 0 and "Usage" in out
    assert err == f"warning: 'maskwright {old}' is deprecated. Use 'maskwright {' '.join(new)}'.\n"
    assert expected[2] == ""


def test_earlier_names_are_not_in_the_help(maskwright):
    _, out, _ = maskwright("--help")
    shown = re.findall(r"^│ ([a-z][a-z-]*) ", out, flags=re.MULTILINE)
    assert shown == [name for commands in COMMANDS.values() for name in commands]
    assert not set(shown) & set(RENAMED)
    assert re.findall(r"^╭─ (\w+) ", out, flags=re.MULTILINE) == ["Options", *COMMANDS]


def test_a_deprecation_warning_leaves_standard_output_as_it_was(maskwright):
    words = ("--lengths", "8,16,32", "--width", 4, "--filter-width", 3, "--window", 4, "--json", "--quiet")
    code, out, err = maskwright("complexity", *words)
    assert code == 0 and out.startswith("{") and out.count("\n") == 1 and err.count("deprecated") == 1


@pytest.mark.parametrize(("group", "default"), [("inspect", "page"), ("bench", "speed")])
def test_a_group_runs_its_first_command_where_none_is_named(group, default, maskwright):
    _, named, _ = maskwright(group, default, "runs/no-model", "--help")
    assert maskwright(group, "runs/no-model", "--help") == (0, named, "") and f"maskwright {group} {default}" in named
    assert maskwright(group, "--json", "--help") == (0, named, "")
    _, own, _ = maskwright(group, "--help")
    assert own != named and all(name in own for name in typer.main.get_command(whole_app()).commands[group].commands)
    assert maskwright(group, "-h") == (0, own, "")


def test_suggestions_take_no_options_of_sampling(maskwright):
    code, out, err = maskwright("generate", "runs/no-model", "the", "--suggest", "--top-k", 5)
    assert code == 2 and out == "" and "remove --greedy, --temperature, --top-k" in err
