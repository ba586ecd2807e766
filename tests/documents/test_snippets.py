"""The commands and Python of the pages run, in the order of the page, on small files and models.

`<!-- not run: REASON -->` before a block skips it.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from conventions.sources import REPOSITORY, ROOT
from documents.given import names, prepare, write_files, write_models
from maskwright.cli import main

BLOCK = re.compile(r"(<!-- not run: ([^>]+) -->\n+)?^( *)```(sh|python)\n(.*?)^ *```", flags=re.DOTALL | re.MULTILINE)
ELSEWHERE = {  # page -> why its commands are not in this test
    "how-to/annotation-files": "its files come from annotation tools; tests/text/test_annotations.py reads each format",
    "how-to/bulk-inference": "needs Ray; tests/scale runs it",
    "how-to/deploy": "needs Docker",
    "how-to/push": "sends files to the Hub; tests/cli/test_push.py has a server with its API",
    "how-to/serve": "tests/serve/clients/test_page.py starts its servers",
    "how-to/serve-clients": "tests/serve/clients/test_page.py starts its server",
    "how-to/several-processes": "needs several processes or machines; tests/train/distributed runs the processes",
    "how-to/studio-data": "its steps are in the browser; tests/browser has these pages",
    "how-to/studio": "its commands stay in the foreground; tests/browser drives the studio",
    "tutorials/attention-in-the-studio": "its steps are in the browser",
}
DOCS = REPOSITORY / "docs"
FOUND = [DOCS / "quickstart.md", DOCS / "from-transformers.md", *DOCS.glob("how-to/*.md"), *DOCS.glob("tutorials/*.md")]
PAGES = sorted({path.relative_to(DOCS).with_suffix("").as_posix() for path in FOUND} - set(ELSEWHERE))
# Options added to commands, so that they end within seconds; the last value of an option counts.
SMALLER = {
    "pretrain": "--steps 4 --batch-tokens 512 --max-length 64 --set hidden_size=32 --set num_attention_heads=2",
    "finetune": "--epochs 1 --restart",
    "experiment rare": "--seeds 1 --epochs 1 --max-train-rows 200",
    "plan": "--probe-seconds 1",
    "finetune translation": "--epochs 1 --average-checkpoints 1 --set hidden_size=32 --set num_attention_heads=2",
    "tokenizer train": "--vocab-size 300",
    "generate": "--max-new-tokens 3",
    "pretrain --model": "--steps 4 --batch-tokens 512 --max-length 64",
    "distill": "--steps 4",
    "distill --teacher runs/b/model": "--epochs 1",
    "experiment benchmark": "--seeds 1 --epochs 1",
    "bench": "--seconds 1 --no-peer --threads 1",
}
# The others take several seconds.
QUICK = ("how-to/check-installation", "how-to/fill-mask", "how-to/tokenizer")
WITH_SHELL = re.compile(r"[<>|;(]")


@dataclass(frozen=True)
class Block:
    """One code block. language: "sh" or "python"; reason: why it is not run, "" if it is."""

    language: str
    text: str
    reason: str


def blocks_of(page: str) -> list[Block]:
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    return [Block(found[4], found[5], found[2] or "") for found in BLOCK.finditer(text)]


@pytest.fixture(scope="module")
def given(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("given")
    write_files(folder)
    write_models(folder)
    program = folder / "bin" / "maskwright"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT.parent} exec {sys.executable} -m maskwright "$@"\n')
    program.chmod(0o755)
    return folder


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=() if page in QUICK else pytest.mark.slow) for page in PAGES]
)
def test_the_blocks_of_a_page_run(page: str, given: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    shutil.copytree(given, tmp_path, dirs_exist_ok=True)
    prepare(page, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    known = names(page)
    for block in blocks_of(page):
        if block.reason:
            continue
        if block.language == "python":
            exec(compile(block.text, f"{page}.md", "exec"), known)
        else:
            for line in block.text.replace("\\\n", " ").splitlines():
                run_line(line, monkeypatch)


def run_line(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run one line of a shell block; commands without pipes and redirections run in this process."""
    words = shlex.split(line, comments=True)
    if not words:
        return
    for length in (3, 2, 1):
        added = SMALLER.get(" ".join(words[1 : 1 + length]))
        if added and words[0] == "maskwright":
            words += shlex.split(added)
            break
    if words[0] != "maskwright" or WITH_SHELL.search(re.sub(r"\"[^\"]*\"", "", line)):
        done = subprocess.run(line, shell=True, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{line}\n{done.stderr}"
        return
    monkeypatch.setattr(sys, "argv", words)
    code: object = 0
    try:
        main()
    except SystemExit as finished:
        code = finished.code
    assert not code, line


def test_every_page_has_blocks_and_each_skipped_one_a_reason():
    for page in PAGES:
        blocks = blocks_of(page)
        assert any(not block.reason for block in blocks), page
    text = "<!-- not run: needs a GPU -->\n\n```sh\nmaskwright doctor\n```\n"
    assert [found[2] for found in BLOCK.finditer(text)] == ["needs a GPU"]
