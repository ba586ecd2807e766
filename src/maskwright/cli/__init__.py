"""Floor 7: the commands. They parse, call and show; no model logic lives here."""

from .app import main

__all__ = ["main"]
