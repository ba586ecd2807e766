"""Converts lists, arrays, columns and data frames from callers to texts and text pairs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ...core.errors import ConfigError, InputError

Text = str | Sequence[str]


PAIR_COLUMNS = ("text", "text_pair")
Column = str | int
HOW_TO_NAME = (
    "Rename the columns to 'text' and 'text_pair' for pairs (only 'text' for single texts), or pass one column, a list "
    "of (text, second text) tuples, or, to an estimator, columns=(FIRST, SECOND)."
)


def is_table(texts: Any) -> bool:
    """Whether texts are a matrix or a data frame."""
    return getattr(texts, "ndim", None) == 2 or is_frame(texts)


def is_frame(texts: Any) -> bool:
    """Whether texts are a table with named columns (pandas, polars, pyarrow or datasets)."""
    return hasattr(texts, "columns") or hasattr(texts, "column_names")


def texts_of_table(table: Any, columns: Sequence[Column] | None = None) -> list[Any]:
    """Returns the rows of a data frame or matrix: texts, or (text, second text) tuples.

    columns: first and optional second text column, by name (matrix: by position). Default: the only column, or the
    columns `text`, or `text` and `text_pair`. Raises InputError for any other table, because the order
    of the two texts would be ambiguous.
    """
    names = column_names(table)
    chosen = names if columns is None and len(names) == 1 else columns
    if chosen is None and sorted(names, key=str) in ([PAIR_COLUMNS[0]], [*PAIR_COLUMNS]):
        chosen = PAIR_COLUMNS
    if chosen is None:
        raise InputError(f"A table with the columns {_listed(names)} is neither texts nor text pairs. {HOW_TO_NAME}")
    for name in chosen:
        if names.count(name) != 1:
            times = f"{names.count(name)} columns" if name in names else "no column"
            raise InputError(f"The table has {times} {name!r}: it has {_listed(names)}. {HOW_TO_NAME}")
    values = [_values(table, name) for name in chosen]
    return values[0] if len(values) == 1 else list(zip(*values, strict=True))


def check_columns(columns: Any, roles: Sequence[str] = PAIR_COLUMNS) -> None:
    """Raise ConfigError unless `columns` is None or contains distinct columns for the first or all of `roles`."""
    fits = columns is None or (
        isinstance(columns, (tuple, list))
        and 1 <= len(columns) <= len(roles)
        and len({*columns}) == len(columns)
        and all(isinstance(name, (str, int)) for name in columns)
    )
    if not fits:
        raise ConfigError(f"columns is {columns!r}; it must contain different columns: ({', '.join(roles)}).")


def column_names(table: Any) -> list[Any]:
    """Returns the column names of a data frame, or the column positions of a matrix."""
    if not is_frame(table):
        return list(range(table.shape[1]))
    return list(table.column_names if hasattr(table, "column_names") else table.columns)


def _values(table: Any, name: Column) -> list[Any]:
    column = table[name] if is_frame(table) else table[:, name]
    convert = next((getattr(column, way) for way in ("to_list", "to_pylist", "tolist") if hasattr(column, way)), None)
    return list(column) if convert is None else list(convert())


def _listed(names: Sequence[Any]) -> str:
    shown = ", ".join(repr(name) for name in names[:10])
    return shown + (", ..." if len(names) > 10 else "")


def split_pairs(texts: Iterable[Text]) -> tuple[list[str], list[str | None]]:
    """Returns first texts, and second texts (None if there is none).

    Data frames and matrices are read as in `texts_of_table`. Raises InputError for anything but texts and text pairs.
    """
    if isinstance(texts, str):
        raise InputError("Expected a list of texts, not a single text: put it in a list.")
    if is_table(texts):
        texts = texts_of_table(texts)
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
                raise InputError(f"Pair {index} has no second text (None): pass a text, or only the first one.")
        else:
            raise InputError(f"Item {index} is not a text or a text pair but {_describe(text)}.")
    return firsts, seconds


def reject_non_texts(texts: Sequence[Any]) -> None:
    """Raise InputError for the first item that is not a string or contains a lone surrogate."""
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(f"Item {index} is not text but {_describe(text)}: pass only str values.")
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise InputError(
                f"Text {index} has a lone surrogate (U+{ord(text[error.start]):04X}) at character "
                f"{error.start}: not valid Unicode. Fix the text where it was decoded."
            ) from None


def _describe(value: Any) -> str:
    shown = repr(value)
    return f"{type(value).__name__} ({shown if len(shown) <= 40 else shown[:37] + '...'})"


def check_choice(name: str, value: Any, choices: Sequence[Any]) -> None:
    """Raise ConfigError if the argument `name` is not one of its choices."""
    if not any(value is choice or (isinstance(value, str) and value == choice) for choice in choices):
        raise ConfigError(f"{name}={value!r} is not valid: use one of {', '.join(map(repr, choices))}.")
