"""The site builds without a broken link, and its pages load nothing from other servers."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conventions import reference  # noqa: F401  # writes the pages that are not stored
from conventions.sources import REPOSITORY

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
