"""The documentation holds: links lead somewhere, and every command and flag that it shows exists."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from conventions.sources import REPOSITORY
from conventions.test_flags import current_flags

PAGES = sorted(
    [REPOSITORY / "README.md", *(REPOSITORY / "docs").rglob("*.md"), *(REPOSITORY / "examples").glob("*.md")]
)
DEFAULTS = {"inspect": "page", "bench": "speed"}  # the command of a group that runs where none is named


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path):
    text = page.read_text(encoding="utf-8")
    pictures = re.findall(r'\bsrc(?:set)?="([^"]+)"', text)
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text) + pictures:
        if not target.startswith(("http://", "https://", "mailto:")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_page_is_in_the_contents_of_the_site_and_the_other_way_round():
    contents = (REPOSITORY / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    listed = re.findall(r": (\S+\.md)$", contents, flags=re.MULTILINE)
    pages = [page.relative_to(REPOSITORY / "docs").as_posix() for page in (REPOSITORY / "docs").rglob("*.md")]
    assert sorted(listed) == sorted(pages)


def test_links_of_the_site_stay_inside_it():
    for page in (REPOSITORY / "docs").rglob("*.md"):
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (page.parent / target).resolve().is_relative_to(REPOSITORY / "docs"), f"{page.name}: {target}"


LONGEST_PAGE = 1200  # words
GENERATED = "<!-- Written by tools/reference.py"
TASKS = (
    *("answer", "choose", "classify", "generate", "multi-task", "pretrain"),
    *("regress", "tag", "text-to-text", "train-embeddings", "translate"),
)


@pytest.mark.parametrize("page", sorted((REPOSITORY / "docs").rglob("*.md")), ids=lambda page: page.name)
def test_pages_are_short_and_name_the_next_ones(page: Path):
    text, folder = page.read_text(encoding="utf-8"), page.relative_to(REPOSITORY / "docs").parts[0]
    if folder != "results" and not text.startswith(GENERATED):
        words = len(re.findall(r"\S*\w\S*", text))
        assert words <= LONGEST_PAGE, f"{page.name} has {words} words"
    if folder != "results" and page.parent.name != "decisions":
        assert re.search(r"^Next: \[", text, flags=re.MULTILINE), f"{page.name} does not name the next pages"


@pytest.mark.parametrize("task", TASKS)
def test_pages_of_tasks_train_evaluate_and_use(task: str):
    text = (REPOSITORY / "docs" / "how-to" / f"{task}.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (Train|Evaluate|Use)$", text, flags=re.MULTILINE) == ["Train", "Evaluate", "Use"]
    assert "](../reference/cli/" in text


def shown_commands(text: str) -> list[list[str]]:
    """The `maskwright ...` lines of code blocks, as words."""
    blocks = re.findall(r"```(?:sh|console|bash|text)?\n(.*?)```", text, flags=re.DOTALL)
    joined = "\n".join(blocks).replace("\\\n", " ")
    lines = [line.strip().removeprefix("$ ") for line in joined.splitlines()]
    return [shlex.split(line, comments=True) for line in lines if line.startswith("maskwright ")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_flags_exist(page: Path):
    flags = current_flags()
    for words in shown_commands(page.read_text(encoding="utf-8")):
        names = [" ".join(words[1:3]), words[1], f"{words[1]} {DEFAULTS.get(words[1])}"]
        name = next((one for one in names if one in flags), words[1])
        if name.startswith("-"):
            continue
        assert name in flags, f"{page.name} shows 'maskwright {name}', which does not exist"
        for word in words[1:]:
            if re.match(r"--?[a-z]", word):
                assert word.split("=")[0] in {*flags[name], "--help", "-h"}, f"{page.name}: {name} has no {word}"


@pytest.mark.parametrize("command", list(current_flags()))
def test_every_command_shows_examples(command: str):
    import typer.main

    from maskwright.cli.app import whole_app

    found = typer.main.get_command(whole_app())
    for part in command.split():
        found = found.commands[part]  # type: ignore[attr-defined]
    examples = re.findall(r"^\s*maskwright .*$", found.help or "", flags=re.MULTILINE)
    assert len(examples) >= 2, f"{command} shows {len(examples)} examples"
    known = {*current_flags()[command], "--help"}
    for example in examples:
        for word in shlex.split(example):
            if re.match(r"--?[a-z]", word):
                assert word.split("=")[0] in known, f"{command} --help shows {word}, which it does not have"
