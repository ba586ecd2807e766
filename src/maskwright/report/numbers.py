"""Number formatting of reports, and HTML elements that escape their content."""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

Value = str | int | float | bool | None
Attribute = str | int | float | bool | None

# -- HTML that is safe by construction: `element` escapes all text and attributes that are not `Markup` --------------

# Characters that are invalid in HTML text: control characters except tab and line feed, lone surrogates,
# noncharacters.
_INVALID = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_VOID = frozenset({"meta", "link"})
_CAMEL = {"viewbox": "viewBox", "preserveaspectratio": "preserveAspectRatio"}  # case-sensitive in SVG


class Markup(str):
    """Text that is already HTML."""

    __slots__ = ()


def clean(text: str) -> str:
    """Replaces characters that are invalid in HTML by U+FFFD, and normalizes line ends to line feeds."""
    return _INVALID.sub("\ufffd", text.replace("\r\n", "\n").replace("\r", "\n"))


def escape(text: str) -> Markup:
    """Escapes text as HTML; Markup is unchanged."""
    return text if isinstance(text, Markup) else Markup(html.escape(clean(text), quote=True))


def join(*parts: str | Iterable[str] | None) -> Markup:
    """Concatenates parts; None is skipped, iterables are joined, plain text is escaped."""
    return Markup("".join(escape(one) if isinstance(one, str) else join(*one) for one in parts if one is not None))


def element(tag: str, /, *parts: str | Iterable[str] | None, **attributes: Attribute) -> Markup:
    """`<tag attributes>parts</tag>`.

    Attribute names: a trailing _ is dropped and _ becomes - (class_, aria_label). Values: None and False are omitted,
    True has no value. Tags and attribute names must not come from data.
    """
    written = "".join(_attribute(key, value) for key, value in attributes.items())
    return Markup(f"<{tag}{written}>" if tag in _VOID else f"<{tag}{written}>{join(*parts)}</{tag}>")


def data_text(text: str, tag: str = "span", /, **attributes: Attribute) -> Markup:
    """Text from data in its own element, so that right-to-left text does not affect its surroundings."""
    return element(tag, text, dir="auto", **attributes)


def json_text(data: Any) -> str:
    """JSON that is safe inside a script element: ASCII without `<`, `>` and `&`. Raises ValueError for NaN."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _attribute(key: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    name = _CAMEL.get(key, key.rstrip("_").replace("_", "-"))
    if value is True:
        return f" {name}"
    return f' {name}="{escape(f"{value:g}" if isinstance(value, float) else str(value))}"'


# -- Numbers as text -------------------------------------------------------------------------------------------------

MISSING = "–"
MINUS = "−"
NO_BREAK = "\N{NO-BREAK SPACE}"
# "1,204", "31.2 %", "0.894 ± 0.004", "3 min 20 s", "–".
_NUMBER = re.compile(r"[–−+]?|[−+]?[\d.,]+(e[−+]?\d+)?(\s?(%|[kMG]?B|ms|s|min|h|d|±|[\d.,]+))*")


def show(value: Value) -> str:
    """Formats any value: 1,204, 0.894, 12.3, 2e-5, yes / no, – for None or NaN; text is unchanged."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return count(value)
    if isinstance(value, float):
        return _float(value)
    return MISSING if value is None else value


def setting(value: Value) -> str:
    """As `show`, but without trailing zeros: 0.1, 1.442, 5e-4."""
    is_plain = isinstance(value, float) and 1e-3 <= abs(value) < 1000
    return _signed(f"{value:.4g}") if is_plain else show(value)


def column(values: Sequence[Value]) -> list[str]:
    """Formats a column of values: floats of ordinary size all have three decimals, so that they align."""
    floats = [abs(value) for value in values if isinstance(value, float) and math.isfinite(value)]
    is_even = bool(floats) and 0.01 <= max(floats) < 1000
    return [fraction(value) if is_even and isinstance(value, float) else show(value) for value in values]


def is_number(text: str) -> bool:
    """Whether the text of a cell is a number, with a unit or a deviation, and so right-aligned."""
    return _NUMBER.fullmatch(text.strip()) is not None


def keep_together(text: str) -> str:
    """Prevents line breaks between a number and its percent sign, and around ±."""
    return re.sub(r"(?<=\d) (?=%)|(?<=\d) (?=± ?\d)|(?<=±) (?=\d)", NO_BREAK, text)


def count(number: int) -> str:
    """1204 -> 1,204."""
    return _signed(f"{number:,}")


def decimals(value: float, digits: int) -> str:
    """A number with so many decimals; – and ∞ for what is not finite."""
    return _signed(f"{value:,.{digits}f}") if math.isfinite(value) else _odd(value)


def fraction(value: float) -> str:
    """0.8941 -> 0.894; always three decimals."""
    return decimals(value, 3)


def percent(value: float, digits: int = 1) -> str:
    """0.3123 -> 31.2 %."""
    return decimals(100 * value, digits) + f"{NO_BREAK}%" * math.isfinite(value)


def plus_minus(mean: float, deviation: float | None, unit: str = "number") -> str:
    """0.894 ± 0.004, or 89.4 ± 0.4 % if `unit` is "percent"; only the mean without a deviation."""
    form = percent if unit == "percent" else fraction
    return form(mean) if deviation is None else f"{form(mean).removesuffix(f'{NO_BREAK}%')} ± {form(deviation)}"


def duration(seconds: float) -> str:
    """0.42 s, 12.3 s, 3 min 20 s, 2 h 05 min, 3 d 4 h."""
    if not math.isfinite(seconds):
        return _odd(seconds)
    if seconds < 0:
        return MINUS + duration(-seconds)
    if seconds < 60 and round(seconds) < 60:
        return f"{seconds:.2f}{NO_BREAK}s" if seconds < 1 else f"{seconds:.3g}{NO_BREAK}s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}{NO_BREAK}min {rest}{NO_BREAK}s" if rest else f"{minutes}{NO_BREAK}min"
    hours, minutes = divmod(round(seconds / 60), 60)
    if hours < 48:
        return f"{hours}{NO_BREAK}h {minutes:02d}{NO_BREAK}min"
    days, hours = divmod(hours, 24)
    return f"{days}{NO_BREAK}d {hours}{NO_BREAK}h"


def file_size(size_bytes: int) -> str:
    """45,100,000 -> 45.1 MB (powers of ten, as file managers count)."""
    size = float(size_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 999.5:
            return f"{size:.3g}{NO_BREAK}{unit}"
        size /= 1000
    return f"{size:,.1f}{NO_BREAK}TB"


def _float(value: float) -> str:
    if not math.isfinite(value):
        return _odd(value)
    size = abs(value)
    if size >= 1000 or value == int(value):
        return _signed(f"{value:,.0f}")
    if size >= 1e-3:
        return _signed(f"{value:.3f}" if 0.1 <= size < 10 else f"{value:.4g}" if size >= 10 else f"{value:.3g}")
    mantissa, exponent = f"{value:.2e}".split("e")
    return _signed(f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}")


def _signed(text: str) -> str:
    if text.startswith("-") and not text.strip("-0.,"):
        return text[1:]
    return text.replace("-", MINUS, 1) if text.startswith("-") else text


def _odd(value: float) -> str:
    return MISSING if math.isnan(value) else "∞" if value > 0 else MINUS + "∞"
