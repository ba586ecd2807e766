"""Streams the entries of an array in a JSON file: `[entry, ...]`, or `{"version": ..., "data": [entry, entry, ...]}`.

Question-answering files contain tens of megabytes in one object. Only the current entry is kept as text, so memory
use does not depend on file size.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...core.errors import InputError
from .column_names import KNOWN_NAMES
from .files import open_bytes, reject_binary

_SAMPLE_BYTES = 8192
_FIRST_CHUNK = 1 << 16
_SPACES = " \t\n\r"


class RepeatedKeyError(Exception):
    """A JSON object has a duplicate key."""


def deduplicated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns the pairs of a JSON object as a dict. Raises RepeatedKeyError for a duplicate key."""
    value = dict(pairs)
    if len(value) < len(pairs):
        keys = [key for key, _ in pairs]
        repeated = next(key for key in keys if keys.count(key) > 1)
        raise RepeatedKeyError(f"duplicate key '{repeated}' in the object")
    return value


def read_array(path: Path | str, key: str) -> Iterator[Any]:
    """Yields the entries of the array under `key` in the file's top-level object; the file may be compressed.

    Raises InputError with line and column if the file is not such JSON; entries before the error have been yielded.
    """
    with _scanner(path) as scanner:
        yield from scanner.entries(key)


def read_values(path: Path | str) -> Iterator[tuple[int, Any]]:
    """Yields number (from 1) and value of each entry of the file's top-level array; without one, of each of its values,
    or of the records in `{"data": [record, ...]}`.

    Exports often are one long line, so that a line would not tell entries apart. The file may be compressed. Raises as
    `read_array`, and InputError for an object of columns.
    """
    with _scanner(path) as scanner:
        yield from enumerate(scanner.values(), start=1)


def _records_in(value: Any, name: str) -> list[Any]:
    """Returns the records in a value that stands alone in a file: itself, or those in its `data`."""
    if not isinstance(value, dict):
        return [value]
    data = value.get("data")
    if isinstance(data, list) and data:
        if all(isinstance(one, dict) and "paragraphs" not in one for one in data):  # else the layout of SQuAD
            return data
        if isinstance(value.get("columns"), list) and isinstance(data[0], list):
            raise _of_columns(value["columns"], name)
    if any(str(key).casefold() in KNOWN_NAMES and isinstance(one, (list, dict)) for key, one in value.items()) and (
        {type(one) for one in value.values()} in ({list}, {dict}) and len({len(one) for one in value.values()}) == 1
    ):
        raise _of_columns(list(value), name)
    return [value]


def _of_columns(columns: Sequence[Any], name: str) -> InputError:
    listed = ", ".join(map(str, columns))[:200]
    return InputError(
        f"{name} is an object of columns ({listed}), not of records: write one object for each row, with pandas "
        'to_json(orient="records").'
    )


def has_entries(path: Path | str, key: str, within: str) -> bool:
    """Whether the file's top-level object has an array `key` with an object that has the key `within`.

    The file is read up to that object. False for a file that is missing or not JSON.
    """
    if not Path(path).is_file():
        return False
    try:
        with _scanner(path) as scanner:
            if scanner.next_character(needed=False) != "{":
                return False
            for name in scanner.members():
                if name == key and scanner.next_character() == "[":
                    return any(isinstance(entry, dict) and within in entry for entry in scanner.items())
                scanner.value()
    except InputError:
        return False
    return False


def starts_with(path: Path | str) -> str:
    """Returns the first character of the file's text that is not a space; "" for an empty file."""
    with _scanner(path) as scanner:
        return scanner.next_character(needed=False)


@contextmanager
def _scanner(path: Path | str) -> Iterator[_Scanner]:
    with open_bytes(path) as handle:
        reject_binary(handle.peek(_SAMPLE_BYTES)[:_SAMPLE_BYTES], path)
        text = io.TextIOWrapper(handle, encoding="utf-8-sig", newline="")
        yield _Scanner(text, str(path))


class _Scanner:
    """A window on the text of a file, starting at the first unparsed character.

    It grows by its own size, so that parsing an entry again costs at most twice its length in total.
    """

    def __init__(self, source: io.TextIOBase, name: str) -> None:
        self.source, self.name = source, name
        self.text, self.at, self.is_whole = "", 0, False
        self.line, self.column = 1, 1  # of the first character of `text`
        self.decoder = json.JSONDecoder(object_pairs_hook=deduplicated)

    def entries(self, key: str) -> Iterator[Any]:
        """Iterates over the object and the array under `key`."""
        if self.next_character() != "{":
            raise InputError(f"{self.name} does not contain a JSON object with '{key}'.")
        found = False
        for name in self.members():
            if name != key:
                self.value()
                continue
            if found:
                raise self.fault(f"duplicate key '{key}'")
            found = True
            if self.next_character() != "[":
                raise self.fault(f"'{key}' is not a list")
            yield from self.items()
        if self.next_character(needed=False):
            raise self.fault("unexpected data after the end of the object")
        if not found:
            raise InputError(f"{self.name} has no '{key}': expected {{\"{key}\": [...]}}.")

    def values(self) -> Iterator[Any]:
        """Yields each entry of the array that begins here, or each value."""
        if self.next_character(needed=False) != "[":
            while self.next_character(needed=False):
                yield from _records_in(self.value(), self.name)
            return
        yield from self.items()
        if self.next_character(needed=False):
            raise self.fault("unexpected data after the end of the array")

    def members(self) -> Iterator[str]:
        """Yields the keys of the object that begins here; the caller parses each value."""
        self.at += 1
        if self.next_character() != "}":
            while True:
                if self.next_character() != '"':
                    raise self.fault("expected a key in double quotes")
                name = self.value()
                if self.next_character() != ":":
                    raise self.fault("expected a colon after the key")
                self.at += 1
                yield name
                if not self.is_next_of("}"):
                    break
        self.at += 1

    def items(self) -> Iterator[Any]:
        """Yields the values of the array that begins here."""
        self.at += 1
        if self.next_character() != "]":
            while True:
                yield self.value()
                if not self.is_next_of("]"):
                    break
        self.at += 1

    def is_next_of(self, end: str) -> bool:
        """Whether the next character is a comma (which is consumed) rather than `end`."""
        character = self.next_character()
        if character == ",":
            self.at += 1
        elif character != end:
            raise self.fault(f"expected a comma or '{end}'")
        return character == ","

    def next_character(self, needed: bool = True) -> str:
        """Returns the next non-space character without consuming it; "" at the end of the file."""
        while True:
            while self.at < len(self.text) and self.text[self.at] in _SPACES:
                self.at += 1
            if self.at < len(self.text):
                return self.text[self.at]
            if not self.read_on():
                if needed:
                    raise self.fault("unexpected end of file")
                return ""

    def value(self) -> Any:
        """Parses the JSON value that begins here."""
        self.next_character()
        while True:
            begin = self.at
            try:
                value, end = self.decoder.raw_decode(self.text, begin)
            except json.JSONDecodeError as error:
                if self.read_on():
                    continue
                self.at += error.pos - begin
                raise self.fault(error.msg) from None
            except RepeatedKeyError as error:
                raise self.fault(str(error)) from None
            except RecursionError:
                raise self.fault("nested too deeply") from None
            except ValueError as error:  # a number of thousands of digits
                raise self.fault(str(error)) from None
            if end == len(self.text) and self.read_on():
                continue  # a number may continue
            self.at = end
            return value

    def read_on(self) -> bool:
        """Drop parsed text and read more; False at the end of the file."""
        if self.is_whole:
            return False
        self._forget()
        try:
            more = self.source.read(max(_FIRST_CHUNK, len(self.text)))
        except UnicodeDecodeError as error:
            reason = f"byte 0x{error.object[error.start]:02x} is not valid UTF-8"
            raise InputError(f"{self.name} is not UTF-8 text after line {self.line}: {reason}.") from None
        self.is_whole = not more
        self.text += more
        return not self.is_whole

    def _forget(self) -> None:
        self.line, self.column = self._place()
        self.text, self.at = self.text[self.at :], 0

    def _place(self) -> tuple[int, int]:
        """Returns line and column of the current character."""
        lines = self.text.count("\n", 0, self.at)
        if not lines:
            return self.line, self.column + self.at
        return self.line + lines, self.at - self.text.rindex("\n", 0, self.at)

    def fault(self, reason: str) -> InputError:
        """Returns the error for the current character."""
        line, column = self._place()
        reason = reason[:1].lower() + reason[1:]
        return InputError(f"{self.name} is not the expected JSON: line {line}, column {column}: {reason}.")
