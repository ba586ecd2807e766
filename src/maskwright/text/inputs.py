"""What may stand where texts are expected: a list of texts or of pairs; anything else is refused in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..core.errors import ConfigError, InputError

Text = str | Sequence[str]


def split_pairs(texts: Iterable[Text]) -> tuple[list[str], list[str | None]]:
    """First texts, and second ones (None where there is none).

    Raises InputError for what is neither a text nor a pair of texts.
    """
    if isinstance(texts, str):
        raise InputError("A list of texts is expected, not one text: put it in a list.")
    firsts: list[str] = []
    seconds: list[str | None] = []
    for index, text in enumerate(texts):
        if isinstance(text, str):
            firsts.append(text)
            seconds.append(None)
        elif isinstance(text, (tuple, list, np.ndarray)) and len(text) == 2:
            firsts.append(text[0])
            seconds.append(text[1])
            if text[1] is None:
                raise InputError(f"Pair {index} has no second text (None): give text, or only the first one.")
        else:
            raise InputError(f"Item {index} is neither a text nor a pair of texts but {_describe(text)}.")
    return firsts, seconds


def refuse_non_texts(texts: Sequence[Any]) -> None:
    """Raise InputError for the first item that is no text, or that holds a lone surrogate."""
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(f"Item {index} is not text but {_describe(text)}: give str values only.")
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise InputError(
                f"Text {index} has a lone surrogate (U+{ord(text[error.start]):04X}) at character "
                f"{error.start}: half of a character, no valid Unicode. Repair the text where it was decoded."
            ) from None


def _describe(value: Any) -> str:
    shown = repr(value)
    return f"{type(value).__name__} ({shown if len(shown) <= 40 else shown[:37] + '...'})"


def check_choice(name: str, value: Any, choices: Sequence[Any]) -> None:
    """Raise ConfigError when the argument `name` is none of its choices."""
    if not any(value is choice or (isinstance(value, str) and value == choice) for choice in choices):
        raise ConfigError(f"{name}={value!r} is not known: use one of {', '.join(map(repr, choices))}.")
