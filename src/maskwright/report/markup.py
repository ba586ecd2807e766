"""HTML that is safe by construction: `element` escapes all text and attributes that are not `Markup`."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

# Characters that are invalid in HTML text: control characters except tab and line feed, lone surrogates,
# noncharacters.
_INVALID = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_VOID = frozenset({"meta", "link"})
_CAMEL = {"viewbox": "viewBox", "preserveaspectratio": "preserveAspectRatio"}  # case-sensitive in SVG

Attribute = str | int | float | bool | None


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
    return Markup("".join(_flat(parts)))


def element(tag: str, /, *parts: str | Iterable[str] | None, **attributes: Attribute) -> Markup:
    """`<tag attributes>parts</tag>`.

    Attribute names: a trailing _ is dropped and _ becomes - (class_, aria_label). Values: None and False are omitted,
    True has no value. Tags and attribute names must not come from data.
    """
    written = "".join(_attribute(key, value) for key, value in attributes.items())
    if tag in _VOID:
        return Markup(f"<{tag}{written}>")
    return Markup(f"<{tag}{written}>{join(*parts)}</{tag}>")


def data_text(text: str, tag: str = "span", /, **attributes: Attribute) -> Markup:
    """Text from data in its own element, so that right-to-left text does not affect its surroundings."""
    return element(tag, text, dir="auto", **attributes)


def _flat(parts: Iterable[str | Iterable[str] | None]) -> Iterable[str]:
    for part in parts:
        if part is None:
            continue
        if isinstance(part, str):
            yield escape(part)
        else:
            yield from _flat(part)


def _attribute(key: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    name = _CAMEL.get(key, key.rstrip("_").replace("_", "-"))
    if value is True:
        return f" {name}"
    return f' {name}="{escape(f"{value:g}" if isinstance(value, float) else str(value))}"'
