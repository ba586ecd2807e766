"""Streams texts of a data set through the `datasets` library: `hub:NAME[/CONFIG]`, its training split.

NAME may include its owner (`hub:OWNER/NAME/CONFIG`). Two components are tried as OWNER/NAME first, then as NAME/CONFIG.
Only data files are read: code of a data set is never run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...core.errors import InputError, MissingExtraError
from ..formats.files import HUB


def hub_rows(name: str, text_field: str) -> Iterator[Any]:
    """Yields the field `text_field` of every row. Raises MissingExtraError or InputError if it is not available."""
    try:
        import datasets
    except ImportError:
        raise MissingExtraError("Reading hub: data sets", "data") from None
    rows = iter(_open(datasets, name))
    while True:
        try:
            row = next(rows, None)
        except Exception as error:  # any error of the library, its readers or the network
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
    """Returns possible (repository, configuration) interpretations of a name."""
    parts = name.removeprefix(HUB).split("/")
    if not all(parts) or len(parts) > 3:
        raise InputError(f"'{name}' is not a data set name: use hub:NAME[/CONFIG] or hub:OWNER/NAME[/CONFIG].")
    if len(parts) == 1:
        return [(parts[0], None)]
    if len(parts) == 2:
        return [("/".join(parts), None), (parts[0], parts[1])]
    return [("/".join(parts[:2]), parts[2])]


def _refusal(name: str, error: Exception) -> InputError:
    reason = str(error).strip().split("\n", 1)[0].rstrip(".") or type(error).__name__
    return InputError(f"{name} cannot be read ({reason}): check the name and the connection.")
