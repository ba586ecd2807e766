"""Inputs of a lesson that you can change: numbers, choices, texts, matrices.

lessons.toml declares them; the lesson's function takes them as arguments of the same names. The command line, the
studio and the saved page read, check and show the values by these declarations.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ..core.errors import ConfigError, InputError
from ..core.registry import unknown_name

MOST = 64  # rows, columns and words of a figure

Kind = Literal["number", "integer", "choice", "text", "matrix"]
Matrix = tuple[tuple[float, ...], ...]
Value = float | int | str | Matrix


@dataclass(frozen=True)
class Input:
    """An input of a lesson, with the slide's value as its default.

    name: of the argument; label: one line for the reader; default: the slide's value; minimum, maximum: bounds of a
    number, of each number of a matrix, or of the number of words of a text; step: of a slider; choices: of a choice;
    rows, columns: size of a matrix, None for any. A text or a matrix may be empty if its default is.
    """

    name: str
    kind: Kind
    label: str
    default: Value
    minimum: float | None = None
    maximum: float | None = None
    step: float | None = None
    choices: Sequence[str] = ()
    rows: int | None = None
    columns: int | None = None

    def read(self, source: Value, *, files: bool = False) -> Value:
        """Return the value of a text, as the command line and the studio pass it, or check a value.

        files: whether a matrix may be the path of a text file with one row per line. Raises InputError.
        """
        text = source if isinstance(source, str) else self.written(source)
        if self.kind == "matrix":
            return self._matrix(text, files)
        if self.kind in ("number", "integer"):
            return self._number(text)
        if self.kind == "choice":
            if text not in self.choices:
                raise InputError(f"{self.name}: {text[:40]!r} is not one of {', '.join(self.choices)}.")
            return text
        count = len(words_of(text))
        if not (self.minimum or 0) <= count <= (self.maximum or MOST):
            raise InputError(f"{self.name}: the text has {count:,} words; pass {self._range()} words.")
        return text

    def written(self, value: Value) -> str:
        """Return a value as `read` accepts it: "0.5", "27 10; 89 31"."""
        if isinstance(value, str):
            return value
        if isinstance(value, tuple):
            return "; ".join(" ".join(f"{cell:.12g}" for cell in row) for row in value)
        return str(value) if isinstance(value, int) else f"{value:.12g}"

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "default": self.written(self.default)}

    def _number(self, text: str) -> float | int:
        wanted = f"pass {'an integer' if self.kind == 'integer' else 'a number'} from {self._range(' to ')}"
        try:
            value = int(text) if self.kind == "integer" else float(text)
        except ValueError:
            raise InputError(f"{self.name}: {text[:40]!r} is not a number; {wanted}.") from None
        assert self.minimum is not None and self.maximum is not None
        if not self.minimum <= value <= self.maximum:  # nan is not between any bounds
            raise InputError(f"{self.name} is {text[:40]}; {wanted}.")
        if self.kind == "integer" and self.step and (value - self.minimum) % self.step:
            raise InputError(f"{self.name} is {text[:40]}; {wanted} in steps of {self.step}.")
        return value

    def _matrix(self, text: str, files: bool) -> Matrix:
        if not text.strip() and not self.default:
            return ()
        found = parse_matrix(text, self.name, files=files)
        size = (len(found), len(found[0]))
        if any(wanted not in (None, given) for wanted, given in zip((self.rows, self.columns), size, strict=True)):
            shape = f"{self.rows or 'any number of'} x {self.columns or 'any number of'}"
            raise InputError(f"{self.name}: {size[0]} x {size[1]} numbers; pass {shape} numbers.")
        low, high = (-math.inf if self.minimum is None else self.minimum), (self.maximum or math.inf)
        for number, row in enumerate(found, 1):
            for cell in row:
                if not low <= cell <= high:
                    raise InputError(f"{self.name}, row {number}: {cell:g} is not a number from {low:g} to {high:g}.")
        return found

    def _range(self, between: str = " to ") -> str:
        low, high = self.minimum or 0, self.maximum or MOST
        return f"{low:g}{between}{high:,.12g}"


def read_values(
    lesson: str, inputs: Sequence[Input], given: Mapping[str, Value], *, files: bool = False
) -> dict[str, Value]:
    """Return the value of each input: the given one, else the default.

    Raises ConfigError for a name that the lesson does not have, InputError for a value that it does not accept.
    """
    known = {one.name: one for one in inputs}
    for name in given:
        if not known:
            raise ConfigError(f"The lesson {lesson} has no inputs; see maskwright lessons for those that have.")
        if name not in known:
            raise ConfigError(unknown_name("input", name, known, f"the lesson {lesson}"))
    return {name: one.read(given[name], files=files) if name in given else one.default for name, one in known.items()}


def words_of(text: str) -> list[str]:
    """Words of a text; a Chinese or Japanese character is one word."""
    from ..text.words import split_words

    return [text[start:end] for start, end in split_words(text)]


def parse_matrix(source: str, name: str = "matrix", *, files: bool = False) -> Matrix:
    """Reads rows of numbers: "27 10 12; 89 31 67", or the path of a text file with one row per line.

    Numbers are separated by spaces, tabs or commas; files: whether `source` may be a path. Raises InputError naming the
    row that is not valid.
    """
    try:
        is_file = files and len(source) < 1_000 and Path(source).is_file()
        text = Path(source).read_text(encoding="utf-8-sig") if is_file else source
    except (OSError, ValueError) as error:
        raise InputError(f"{name}: the file {source!r} cannot be read: {error}.") from None
    place = f"{name}, file {source}" if is_file else name
    rows: list[tuple[float, ...]] = []
    lines = [line for line in text.replace(";", "\n").splitlines() if line.strip()]
    for number, line in enumerate(lines, 1):
        try:
            row = tuple(float(cell) for cell in line.replace(",", " ").split())
        except ValueError as error:
            wrong = str(error).rpartition(": ")[2]
            raise InputError(f"{place}, row {number}: {wrong} is not a number.") from None
        if not all(math.isfinite(cell) for cell in row):
            raise InputError(f"{place}, row {number}: all numbers must be finite.")
        if rows and len(row) != len(rows[0]):
            raise InputError(
                f"{place}, row {number} has {len(row)} numbers, row 1 has {len(rows[0])}: make them equal."
            )
        rows.append(row)
    if not rows:
        raise InputError(f"{place}: no numbers. Pass rows such as '27 10 12; 89 31 67'.")
    if max(len(rows), len(rows[0])) > MOST:
        raise InputError(f"{place}: {len(rows)} x {len(rows[0])} numbers; a lesson shows {MOST} x {MOST} at most.")
    return tuple(rows)
