"""Earlier names of commands, and the panels of `maskwright --help`."""

from __future__ import annotations

import re

import pytest

from maskwright.cli.app import COMMANDS, RETIRED, renamed


@pytest.mark.parametrize("old", [old for old, new in RETIRED.items() if isinstance(new, str)])
def test_an_earlier_name_runs_the_command_and_names_the_new_one_once(old, maskwright):
    new = RETIRED[old]
    code, out, err = maskwright(*old.split(), "--help")
    expected = maskwright(*new.split(), "--help")
    assert (code, out) == expected[:2] and code == 0 and "Usage" in out
    assert err == f"warning: 'maskwright {old}' is deprecated. Use 'maskwright {new}'.\n"
    assert expected[2] == ""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("ensemble a b dev.tsv --json", "evaluate a dev.tsv --ensemble b --json"),
        ("ensemble runs/b dev.tsv", "evaluate runs/b dev.tsv --ensemble runs/b"),
        ("ensemble a b x.txt --no-score -o o.tsv", "predict a --input x.txt --ensemble b -o o.tsv"),
        ("next-sentence m a b c --json", "predict m a a --pair=b --pair=c --json"),
        ("next-sentence m --input pairs.tsv", "predict m --input pairs.tsv"),
        ("bench complexity --lengths 8,16 --width 4 --json", "lessons complexity --set width=4 --set length=16 --json"),
        ("complexity", "lessons complexity"),
        ("presets --models --json", "pretrain --model list --json"),
        ("embed m a", "embed m a"),
    ],
)
def test_an_earlier_command_line_is_one_of_the_new_command(old, new):
    assert renamed(old.split()) == new.split()


def test_earlier_names_are_not_in_the_help(maskwright):
    _, out, _ = maskwright("--help")
    shown = re.findall(r"^│ ([a-z][a-z-]*) ", out, flags=re.MULTILINE)
    assert shown == [name for commands in COMMANDS.values() for name in commands]
    assert not set(shown) & set(RETIRED)
    assert re.findall(r"^╭─ (\w+) ", out, flags=re.MULTILINE) == ["Options", *COMMANDS]
