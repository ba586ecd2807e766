"""Text shortened to one line of a message or table."""

from __future__ import annotations

import re


def on_one_line(text: str) -> str:
    """Returns the text with visible line breaks."""
    return re.sub(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]", "⏎", text)


def shorten(text: str, width: int = 70) -> str:
    """Returns the text on one line of at most `width` characters."""
    text = " ".join(text.split())
    return text if len(text) <= width else text[: width - 3] + "..."
