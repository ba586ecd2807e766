"""The generated reference is that of the code, with an entry for each name; so is the page of the public interface."""

import inspect
import re

import maskwright
from conventions.reference import PAGES, REFERENCE
from conventions.sources import REPOSITORY
from conventions.test_flags import commands, current_flags
from maskwright.cli.app import RETIRED


def test_no_page_is_stale():
    assert REFERENCE.stale_pages(PAGES) == [], "run make reference"


def test_each_public_name_has_one_entry():
    entries = re.findall(r"^::: maskwright\.(\w+)$", "".join(PAGES.values()), flags=re.MULTILINE)
    assert sorted(entries) == sorted(maskwright.__all__)


OTHERS = {"Batch", "MaskwrightError", "Tokenizer", "inspect"}  # neither configurations nor called with settings
CALLED = [name for name in maskwright.__all__ if not name.endswith("Config") and name not in OTHERS]


def test_each_parameter_of_a_public_name_is_described():
    for name in CALLED:
        found = getattr(maskwright, name)
        described: set[str] = set()
        for one in inspect.getmro(found) if inspect.isclass(found) else [found]:  # a base describes what is shared
            text = inspect.cleandoc(one.__doc__ or "").partition("\nArgs:\n")[2]
            described |= set(re.findall(r"^    (\w+): \S", text.partition("\n\n")[0], flags=re.MULTILINE))
        given = {one.name for one in inspect.signature(found).parameters.values() if one.kind is not one.VAR_KEYWORD}
        assert given <= described, name


def test_each_option_has_an_entry():
    for command, found in commands().items():
        page = PAGES[f"cli/{command.split(maxsplit=1)[0]}.md"]
        if " " in command:
            page = page.partition(f"\n## maskwright {command}\n")[2].partition("\n## ")[0]
        headings = re.findall(r"^#+ `(.+)`$", page, flags=re.MULTILINE)
        known = {word.strip("[],.") for heading in headings for word in heading.split()}
        for param in found.params:
            names = {one for one in param.opts if one.startswith("--")} or {param.name.upper()}
            assert getattr(param, "hidden", False) or names & {*known, "--help"}, f"{command} {names} has no entry"


def test_each_configuration_of_a_command_has_a_page():
    commands = {name for name, flags in current_flags().items() if "--print-config" in flags}
    listed = {cls.COMMAND for cls, _ in REFERENCE.CONFIGS.values()}
    assert listed == commands


PAGE = (REPOSITORY / "docs" / "reference" / "stability.md").read_text(encoding="utf-8")


def test_the_page_lists_the_public_names_and_the_deprecated_commands():
    names, old = PAGE.split("## Names of `maskwright`")[1].split("## Deprecations")
    assert set(re.findall(r"`(\w+)`", names.split("## Old folders")[0])) - {"maskwright"} == set(maskwright.__all__)
    assert set(re.findall(r"^\| `([\w -]+)` \|", old, re.MULTILINE)) >= set(RETIRED)
