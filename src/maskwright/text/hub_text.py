"""Texts of a data set that the `datasets` library reads: `hub:NAME[/CONFIG]`, its training part, streamed.

NAME may hold its owner (`hub:OWNER/NAME/CONFIG`). Two parts are first taken for OWNER/NAME, then for
NAME/CONFIG. Only data files are read: code that a data set may bring is never run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..core.errors import InputError, MissingExtraError
from .files import HUB


def hub_rows(name: str, text_field: str) -> Iterator[Any]:
    """The field `text_field` of every row. Raises MissingExtraError or InputError when it cannot be had."""
    try:
        import datasets
    except ImportError:
        raise MissingExtraError("Reading hub: data sets", "data") from None
    rows = iter(_open(datasets, name))
    while True:
        try:
            row = next(rows, None)
        except Exception as error:  # whatever the library, its readers or the network raise
            raise _refusal(name, error) from error
        if row is None:
            return
        if text_field not in row:
            raise InputError(f"{name} has no column '{text_field}': the columns are {', '.join(row)}.")
        yield row[text_field]


def _open(library: Any, name: str) -> Any:
    candidates = _candidates(name)
    # Before version 4 the library could run a data set's own code.
    settings = {"trust_remote_code": False} if int(library.__version__.split(".")[0]) < 4 else {}
    for index, (repository, config) in enumerate(candidates):
        try:
            return library.load_dataset(repository, config, split="train", streaming=True, **settings)
        except FileNotFoundError as error:  # also DatasetNotFoundError
            if index + 1 == len(candidates):
                raise _refusal(name, error) from error
        except Exception as error:
            raise _refusal(name, error) from error
    raise AssertionError("there is at least one candidate")


def _candidates(name: str) -> list[tuple[str, str | None]]:
    """Repository and configuration as they may be meant."""
    parts = name.removeprefix(HUB).split("/")
    if not all(parts) or len(parts) > 3:
        raise InputError(f"'{name}' names no data set: write hub:NAME[/CONFIG] or hub:OWNER/NAME[/CONFIG].")
    if len(parts) == 1:
        return [(parts[0], None)]
    if len(parts) == 2:
        return [("/".join(parts), None), (parts[0], parts[1])]
    return [("/".join(parts[:2]), parts[2])]


def _refusal(name: str, error: Exception) -> InputError:
    reason = str(error).strip().split("\n", 1)[0].rstrip(".") or type(error).__name__
    return InputError(f"{name} cannot be read ({reason}): check the name and the connection.")
