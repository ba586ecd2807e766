"""Recipes in processes of their own."""

import os
import subprocess
import sys

from conventions.sources import REPOSITORY, ROOT


def run(name, *options, **environment):
    return subprocess.run(
        [sys.executable, str(REPOSITORY / "recipes" / name), *map(str, options)],
        env={**os.environ, "PYTHONPATH": str(ROOT.parent), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
