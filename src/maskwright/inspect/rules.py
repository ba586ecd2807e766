"""Character-level rules that units may track (Karpathy et al. 2015, section 4.1)."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

OPENING, CLOSING = "([{", ")]}"
_CONDITION = re.compile(r"\bif\b[^:\n{]*")
_WORD = re.compile(r"[^\W\d_]+")
_HEADING = re.compile(r"^[^\n]*:(?=[ \t]*$)", re.MULTILINE)
_COMMENT = re.compile(r"#[^\n]*|//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)


def inside_quotes(text: str) -> np.ndarray:
    """Return 1 between quotation marks, else 0; a blank line closes a quotation. float64 [characters]."""
    found, is_open = np.zeros(len(text)), False
    for place, character in enumerate(text):
        found[place] = is_open
        if character in "“«" or (character == '"' and not is_open):
            is_open = True
        elif character in '”»"' or (character == "\n" and text[place - 1 : place] == "\n"):
            is_open = False
    return found


def place_in_line(text: str) -> np.ndarray:
    """Return the number of characters since the line start. float64 [characters]."""
    found, start = np.zeros(len(text)), 0
    for place, character in enumerate(text):
        found[place] = place - start
        if character == "\n":
            start = place + 1
    return found


def depth_of_brackets(text: str) -> np.ndarray:
    """Return the number of open brackets; unmatched closing brackets are ignored. float64 [characters]."""
    found, depth = np.zeros(len(text)), 0
    for place, character in enumerate(text):
        depth = max(depth + (character in OPENING) - (character in CLOSING), 0)
        found[place] = depth
    return found


def inside_comment(text: str) -> np.ndarray:
    """Return 1 in a comment (#, //, /* */), 0 outside. float64 [characters]."""
    return _inside(_COMMENT, text)


def inside_condition(text: str) -> np.ndarray:
    """Return 1 from "if" to the end of its condition (colon, brace or line end), else 0. float64 [characters]."""
    return _inside(_CONDITION, text)


def inside_capitals(text: str) -> np.ndarray:
    """Return 1 in a word of two or more letters, all of them capitals, 0 elsewhere. float64 [characters]."""
    found = np.zeros(len(text))
    for match in _WORD.finditer(text):
        if len(match[0]) > 1 and match[0].isupper():
            found[match.start() : match.end()] = 1.0
    return found


def inside_heading(text: str) -> np.ndarray:
    """Return 1 in a line that ends with a colon, such as the speaker in a play, else 0. float64
    [characters].
    """
    return _inside(_HEADING, text)


def _inside(pattern: re.Pattern[str], text: str) -> np.ndarray:
    found = np.zeros(len(text))
    for match in pattern.finditer(text):
        found[match.start() : match.end()] = 1.0
    return found


RULES: dict[str, tuple[Callable[[str], np.ndarray], str]] = {
    "quotes": (inside_quotes, "inside quotation marks"),
    "line": (place_in_line, "the position in the line"),
    "depth": (depth_of_brackets, "the number of open brackets"),
    "capitals": (inside_capitals, "inside a word in capitals"),
    "heading": (inside_heading, "inside a line that ends with a colon"),
    "comment": (inside_comment, "inside a comment"),
    "condition": (inside_condition, "inside the condition of an if"),
}
