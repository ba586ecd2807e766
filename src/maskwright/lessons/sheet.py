"""Where a lesson notes what it finds: each number beside the slide's, pictures, and the answer to its question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .lesson import Check

if TYPE_CHECKING:
    from ..train.report import Block

DIGITS = 4  # of a fraction, where a lesson does not say otherwise


class Sheet:
    """What one run of a lesson notes, in order."""

    def __init__(self) -> None:
        self.checks: list[Check] = []
        self.pictures: list[Block] = []
        self.answer_text = ""
        self.answer_pictures: list[Block] = []

    def equal(self, what: str, slide: Any, computed: Any, note: str = "") -> None:
        """The slide's value must be ours."""
        self.checks.append(Check(what, show(slide), show(computed), bool(slide == computed), note))

    def near(
        self, what: str, slide: float | Sequence[float], computed: Any, within: float, *, digits: int = DIGITS
    ) -> None:
        """The slide's number, or row of numbers, must lie within so much of ours."""
        self.checks.append(
            Check(what, show(slide, digits), show(_plain(computed), digits), _is_near(slide, computed, within))
        )

    def off(
        self,
        what: str,
        slide: str,
        right: Any,
        computed: Any,
        note: str,
        *,
        within: float | None = None,
        digits: int = DIGITS,
    ) -> None:
        """The slide is off, rounds by eye, or says it otherwise: ours must be `right`, and the note says why."""
        found = _plain(computed)
        ok = bool(right == found) if within is None else _is_near(right, computed, within)
        self.checks.append(Check(what, slide, show(found, digits), ok, note))

    def holds(self, what: str, slide: str, computed: str, ok: bool, note: str = "") -> None:
        """A law or a relation: what the slide says, what we find, and whether it holds."""
        self.checks.append(Check(what, slide, computed, bool(ok), note))

    def show(self, *blocks: Block) -> None:
        """Add pictures."""
        self.pictures += blocks

    def answer(self, text: str, *blocks: Block) -> None:
        """The answer to the lesson's question, as its experiment gave it."""
        self.answer_text = text
        self.answer_pictures += blocks


def show(value: Any, digits: int = DIGITS) -> str:
    """A value as a table shows it: 1,204, 0.8808, a 3, b 4; rows with commas."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.{digits}f}".replace("-", "\N{MINUS SIGN}")
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {show(one, digits)}" for name, one in value.items())
    return ", ".join(show(one, digits) for one in value)


def tiny(value: float) -> str:
    """A small number by its size: 0, 6e-08, 0.02."""
    if value == 0:
        return "0"
    return f"{value:.0e}".replace("-", "\N{MINUS SIGN}") if abs(value) < 1e-2 else f"{value:.2g}"


def _plain(value: Any) -> Any:
    """A tensor or an array as numbers and lists of them."""
    return value.tolist() if hasattr(value, "tolist") else value


def _is_near(slide: Any, computed: Any, within: float) -> bool:
    wanted, found = _flat(slide), _flat(_plain(computed))
    return len(wanted) == len(found) and all(abs(a - b) <= within for a, b in zip(wanted, found, strict=True))


def _flat(value: Any) -> list[float]:
    return [one for part in value for one in _flat(part)] if isinstance(value, Sequence) else [float(value)]
