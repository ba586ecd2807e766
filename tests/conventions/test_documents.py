"""The documentation holds: links lead somewhere, commands and flags exist, and the site builds."""

import ast
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conventions import reference  # noqa: F401  # writes the pages that are not stored
from conventions.sources import REPOSITORY
from conventions.test_flags import commands, current_flags

PAGES = sorted(
    [REPOSITORY / "README.md", *(REPOSITORY / "docs").rglob("*.md"), *(REPOSITORY / "examples").glob("*.md")]
)


def test_links_lead_somewhere_and_stay_inside_the_site():
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        pictures = re.findall(r'\bsrc(?:set)?="([^"]+)"', text)
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text) + pictures:
            if "://" not in target and not target.startswith("mailto:"):
                place = (page.parent / target).resolve()
                assert place.exists(), f"{page.name} links to {target}"
                is_site = page.is_relative_to(REPOSITORY / "docs")
                assert not is_site or place.is_relative_to(REPOSITORY / "docs"), f"{page.name}: {target}"


def test_every_page_is_in_the_contents_of_the_site_and_the_other_way_round():
    contents = (REPOSITORY / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    listed = re.findall(r": (\S+\.md)$", contents, flags=re.MULTILINE)
    pages = [page.relative_to(REPOSITORY / "docs").as_posix() for page in (REPOSITORY / "docs").rglob("*.md")]
    assert sorted(listed) == sorted(pages)


def shown_commands(text: str) -> list[list[str]]:
    """The `maskwright ...` lines of code blocks, as words."""
    blocks = re.findall(r"```(?:sh|console|bash|text)?\n(.*?)```", text, flags=re.DOTALL)
    joined = "\n".join(blocks).replace("\\\n", " ")
    lines = [line.strip().removeprefix("$ ") for line in joined.splitlines()]
    return [shlex.split(line, comments=True) for line in lines if line.startswith("maskwright ")]


def check_words(place: str, words: list[str], flags: dict[str, list[str]]) -> None:
    """Checks that a command line names a command, and options that it has."""
    name = next((one for one in (" ".join(words[1:3]), words[1]) if one in flags), words[1])
    if name.startswith("-"):
        return
    assert name in flags, f"{place} shows 'maskwright {name}', which does not exist"
    for word in words[1:]:
        if re.match(r"--?[a-z]", word):
            assert word.split("=")[0] in {*flags[name], "--help", "-h"}, f"{place}: {name} has no {word}"


def test_commands_and_options_of_pages_exist():
    flags = current_flags()
    for page in PAGES:
        for words in shown_commands(page.read_text(encoding="utf-8")):
            check_words(page.name, words, flags)


def test_options_of_the_commands_of_recipes_exist():
    """A recipe computes for hours before its last command."""
    flags = current_flags()
    for path in sorted((REPOSITORY / "recipes").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "run" and node.args:
                words = [getattr(one, "value", None) for one in node.args]
                check_words(path.name, ["maskwright", *(word for word in words if isinstance(word, str))], flags)


def test_every_command_shows_examples():
    flags = current_flags()
    for command, found in commands().items():
        examples = re.findall(r"^\s*maskwright .*$", found.help or "", flags=re.MULTILINE)
        assert len(examples) >= 2, f"{command} shows {len(examples)} examples"
        assert not re.search(r"^ *maskwright .*\n *maskwright ", found.help or "", flags=re.MULTILINE), command
        for example in examples:
            check_words(f"{command} --help", shlex.split(example), flags)


LOADED = re.compile(r"<(?:script|link|img|source|iframe)\b[^>]*?\b(?:src|srcset|href)=\"?((?:https?:)?//[^\" >]+)")


def test_fonts_and_scripts_are_local():
    config = (REPOSITORY / "mkdocs.yml").read_text(encoding="utf-8")
    assert "\n  font: false" in config
    for script in re.findall(r"^    - (\S+\.js)\b", config, flags=re.MULTILINE):
        text = (REPOSITORY / "docs" / script).read_text(encoding="utf-8")
        assert "license" in text[:200], f"{script} has no license"


@pytest.mark.slow
def test_the_site_builds_and_loads_nothing_from_other_servers(tmp_path: Path):
    pytest.importorskip("zensical", reason="needs the extra 'docs'")
    for name in ("docs", "src"):
        shutil.copytree(REPOSITORY / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(REPOSITORY / "mkdocs.yml", tmp_path)
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) >= len(list((tmp_path / "docs").rglob("*.md")))
    for page in pages:
        loaded = LOADED.findall(page.read_text(encoding="utf-8"))
        assert not loaded, f"{page.name} loads {loaded}"
