"""Records the results of a lesson: each number next to the slide's, pictures, and the answer to its question."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..report import Bar, Bars, Block
from ..report.charts import Chart, Curves

DIGITS = 4  # decimals shown by default
ROUNDING = 64  # units in the last place of allowed rounding error: the order of operations differs between CPUs
SINGLE = 2.0**-23  # machine epsilon of float32


@dataclass(frozen=True)
class Check:
    """One number or relation. what: its name; slide: the lecture's value ("" if it does not apply to your own values);
    computed: our value; ok: whether it is as expected; note: explanation of a difference to the slide, with the correct
    value ("" if they agree).
    """

    what: str
    slide: str
    computed: str
    ok: bool
    note: str = ""


class LessonRecorder:
    """Collects the checks, pictures and answer of one run of a lesson, in order.

    is_own: whether an input is not the slide's. Then only laws are checked: what is expected of any input. The slide's
    numbers do not apply, and only ours are recorded.
    """

    def __init__(self, is_own: bool = False) -> None:
        self.is_own = is_own
        self.checks: list[Check] = []
        self.pictures: list[Block] = []
        self.answer_text = ""
        self.answer_pictures: list[Block] = []

    def equal(self, what: str, slide: Any, computed: Any, note: str = "", *, law: bool = False) -> None:
        """Record that the slide's value, or that of a law, equals ours."""
        self._add(Check(what, show(slide), show(computed), bool(slide == computed), note), law)

    def near(
        self,
        what: str,
        slide: float | Sequence[float],
        computed: Any,
        within: float | None = None,
        *,
        of: Any = (),
        digits: int = DIGITS,
        law: bool = False,
    ) -> None:
        """Records the slide's number, or row of numbers, and checks that the computed ones agree with it.

        Args:
            what: Name of the number.
            slide: Expected value or values.
            computed: Number, sequence, tensor or array.
            within: Largest allowed difference, for numbers that are sampled or printed rounded.
                Default: `tolerance` of the numbers.
            of: Numbers from which `computed` was derived, if it is a difference of larger ones.
            digits: Decimals shown.
            law: Whether `slide` is computed from the inputs, by hand, and expected of any.
        """
        self._compare(what, show(slide, digits), slide, computed, within, of, digits, law=law)

    def same(self, what: str, slide: str, first: Any, second: Any, *, said: str = "differ by") -> None:
        """Records that two computations of the same numbers agree, up to the rounding of their precision.

        Args:
            what: Name of the check.
            slide: What the slide says.
            first: Tensor, array or nested sequence of numbers.
            second: The same numbers, computed another way.
            said: Text before the largest difference.
        """
        gap, allowed = difference(first, second), tolerance(first, second)
        ok = gap <= allowed
        shown = f"{said} {tiny(gap)}" + ("" if ok else f" ({gap:.3g}, allowed {allowed:.3g})")
        self._add(Check(what, slide, shown, ok), law=True)

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
        """Records a value where the slide differs or rounds: ours must be `right`; the note explains the difference.

        Text, booleans and integers must be equal; other numbers agree as in `near`.
        """
        found = _plain(computed)
        if isinstance(right, str | bool | int):
            self._add(Check(what, slide, show(found, digits), bool(right == found), note))
        else:
            self._compare(what, slide, right, computed, within, (), digits, note)

    def _compare(
        self,
        what: str,
        slide: str,
        right: Any,
        computed: Any,
        within: float | None,
        of: Any,
        digits: int,
        note: str = "",
        *,
        law: bool = False,
    ) -> None:
        allowed = tolerance(right, computed, of) if within is None else within
        gap = difference(right, computed)
        ok = gap <= allowed
        shown = show(_plain(computed), digits)
        if not ok and (law or not self.is_own):
            shown += f" (off by {gap:.3g}, allowed {allowed:.3g})"
        self._add(Check(what, slide, shown, ok, note), law)

    def holds(self, what: str, slide: str, computed: str, ok: bool, note: str = "", *, law: bool = False) -> None:
        """Record a relation: the slide's statement or a law, our finding, and whether it holds."""
        self._add(Check(what, slide, computed, bool(ok), note), law)

    def _add(self, check: Check, law: bool = False) -> None:
        self.checks.append(check if law or not self.is_own else Check(check.what, "", check.computed, True))

    def show(self, *blocks: Block) -> None:
        self.pictures += blocks

    def bars(self, title: str, rows: Mapping[str, float] | Iterable[tuple[str, float]], form: str = "") -> None:
        """Show a bar for each name and value; form: of the values, such as ".1%"."""
        pairs = rows.items() if isinstance(rows, Mapping) else rows
        self.show(Bars([Bar(name, value, f"{value:{form}}" if form else "") for name, value in pairs], title=title))

    def charts(self, *charts: Chart) -> None:
        self.show(Curves(charts, title=""))

    def answer(self, text: str, *blocks: Block) -> None:
        """Set the answer to the lesson's question, with the results of the experiment."""
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


def tolerance(*values: Any) -> float:
    """Largest difference that rounding alone explains between computations of these numbers.

    ROUNDING units in the last place of the number that is largest in magnitude, in the lowest precision among them.
    Tensors and arrays know their precision; numbers without one may come out of float32 and count as such.
    """
    epsilon = max((_epsilon(value) for value in values), default=0.0) or SINGLE
    size = max((abs(one) for value in values for one in _flat(_plain(value))), default=0.0)
    return ROUNDING * epsilon * size


def difference(first: Any, second: Any) -> float:
    """Largest difference between two numbers or rows of numbers; infinite where they are not alike in number."""
    wanted, found = _flat(_plain(first)), _flat(_plain(second))
    if len(wanted) != len(found):
        return float("inf")
    gaps = [abs(a - b) for a, b in zip(wanted, found, strict=True)]
    return max((float("inf") if math.isnan(gap) else gap for gap in gaps), default=0.0)  # nan is never near


def _epsilon(value: Any) -> float:
    """Machine epsilon of a tensor's or an array's numbers; 0 where the precision is not known."""
    kind = str(getattr(value, "dtype", ""))
    if "bfloat16" in kind:
        return 2.0**-7
    if "float" not in kind:
        return 0.0
    return {"float64": sys.float_info.epsilon, "float16": 2.0**-10}.get(kind.removeprefix("torch."), SINGLE)


def _plain(value: Any) -> Any:
    """A tensor or an array as numbers and lists of them."""
    return value.tolist() if hasattr(value, "tolist") else value


def _flat(value: Any) -> list[float]:
    return [one for part in value for one in _flat(_plain(part))] if isinstance(value, Sequence) else [float(value)]
