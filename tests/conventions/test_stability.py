"""The page of the public interface names everything that is public or deprecated."""

from __future__ import annotations

import re

import maskwright
from conventions.sources import REPOSITORY
from maskwright.cli.app import RETIRED

PAGE = (REPOSITORY / "docs" / "reference" / "stability.md").read_text(encoding="utf-8")


def test_the_page_lists_the_public_names_and_the_deprecated_commands():
    names, old = PAGE.split("## Names of `maskwright`")[1].split("## Deprecations")
    assert set(re.findall(r"`(\w+)`", names.split("## Old folders")[0])) - {"maskwright"} == set(maskwright.__all__)
    assert set(re.findall(r"^\| `([\w -]+)` \|", old, re.MULTILINE)) >= set(RETIRED)
