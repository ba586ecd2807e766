"""The entries of one array inside a JSON file, one at a time: `{"version": ..., "data": [entry, entry, ...]}`.

Files of questions run to tens of megabytes in one object. Only the entry in work is held as text, so memory does not
grow with the file.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..core.errors import InputError
from .files import open_bytes, refuse_binary
from .records import RepeatedKeyError, without_repeats

_SAMPLE_BYTES = 8192
_FIRST_CHUNK = 1 << 16
_SPACES = " \t\n\r"


def read_array(path: Path | str, key: str) -> Iterator[Any]:
    """The entries of the array under `key` in the one object that the file holds, packed or not.

    Entries come as they are read. Raises InputError where the file is no such JSON, naming line and column; what
    comes before the fault has been given by then.
    """
    with open_bytes(path) as handle:
        refuse_binary(handle.peek(_SAMPLE_BYTES)[:_SAMPLE_BYTES], path)
        text = io.TextIOWrapper(handle, encoding="utf-8-sig", newline="")
        yield from _Scanner(text, str(path)).entries(key)


class _Scanner:
    """A window on the text of a file, from the first character that is not yet understood.

    It is read on in pieces as long as what was read before, so that trying an entry again costs no more than twice
    its length in all.
    """

    def __init__(self, source: io.TextIOBase, name: str) -> None:
        self.source, self.name = source, name
        self.text, self.at, self.is_whole = "", 0, False
        self.line, self.column = 1, 1  # of the first character of `text`
        self.decoder = json.JSONDecoder(object_pairs_hook=without_repeats)

    def entries(self, key: str) -> Iterator[Any]:
        """Walk over the object, and through the array under `key`."""
        if self.next_character() != "{":
            raise InputError(f"{self.name} holds no JSON object: one with '{key}' is needed.")
        found = False
        for name in self.members():
            if name != key:
                self.value()
                continue
            if found:
                raise self.fault(f"the key '{key}' stands twice")
            found = True
            if self.next_character() != "[":
                raise self.fault(f"'{key}' is no list")
            yield from self.items()
        if self.next_character(needed=False):
            raise self.fault("something follows the end of the object")
        if not found:
            raise InputError(f"{self.name} has no '{key}': the layout is {{\"{key}\": [...]}}.")

    def members(self) -> Iterator[str]:
        """The keys of the object that begins here; the caller takes each value."""
        self.at += 1
        if self.next_character() != "}":
            while True:
                if self.next_character() != '"':
                    raise self.fault("a key in double quotes is needed")
                name = self.value()
                if self.next_character() != ":":
                    raise self.fault("a colon is needed behind the key")
                self.at += 1
                yield name
                if not self.is_next_of("}"):
                    break
        self.at += 1

    def items(self) -> Iterator[Any]:
        """The values of the array that begins here."""
        self.at += 1
        if self.next_character() != "]":
            while True:
                yield self.value()
                if not self.is_next_of("]"):
                    break
        self.at += 1

    def is_next_of(self, end: str) -> bool:
        """Whether a comma stands here (it is taken), not `end`."""
        character = self.next_character()
        if character == ",":
            self.at += 1
        elif character != end:
            raise self.fault(f"a comma or '{end}' is needed")
        return character == ","

    def next_character(self, needed: bool = True) -> str:
        """The next character that is no space, which stays; "" at the end of the file."""
        while True:
            while self.at < len(self.text) and self.text[self.at] in _SPACES:
                self.at += 1
            if self.at < len(self.text):
                return self.text[self.at]
            if not self.read_on():
                if needed:
                    raise self.fault("the file ends too early")
                return ""

    def value(self) -> Any:
        """The value that begins here, of any kind."""
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
                continue  # a number may go on
            self.at = end
            return value

    def read_on(self) -> bool:
        """Forget what is understood and read more; False at the end of the file."""
        if self.is_whole:
            return False
        self._forget()
        try:
            more = self.source.read(max(_FIRST_CHUNK, len(self.text)))
        except UnicodeDecodeError as error:
            reason = f"byte 0x{error.object[error.start]:02x} is not valid UTF-8"
            raise InputError(f"{self.name} is not UTF-8 text behind line {self.line}: {reason}.") from None
        self.is_whole = not more
        self.text += more
        return not self.is_whole

    def _forget(self) -> None:
        self.line, self.column = self._place()
        self.text, self.at = self.text[self.at :], 0

    def _place(self) -> tuple[int, int]:
        """Line and column of the character in work."""
        lines = self.text.count("\n", 0, self.at)
        if not lines:
            return self.line, self.column + self.at
        return self.line + lines, self.at - self.text.rindex("\n", 0, self.at)

    def fault(self, reason: str) -> InputError:
        """The error for what stands at the character in work."""
        line, column = self._place()
        reason = reason[:1].lower() + reason[1:]
        return InputError(f"{self.name} is not the JSON that is needed: line {line}, column {column}: {reason}.")
