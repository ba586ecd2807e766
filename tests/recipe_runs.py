"""Recipes in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys

from conventions.sources import REPOSITORY, ROOT


def run(name: str, *options: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a recipe in a separate process."""
    return subprocess.run(
        [sys.executable, str(REPOSITORY / "recipes" / name), *map(str, options)],
        env={**os.environ, "PYTHONPATH": str(ROOT.parent), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
