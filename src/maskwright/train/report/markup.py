"""HTML that is safe by construction: `element` escapes every text and attribute that is not `Markup` yet."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

# What an HTML file cannot hold as text: control characters but tab and line feed, lone surrogates,
# non-characters.
_UNSPEAKABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_VOID = frozenset({"meta", "link"})
_CAMEL = {"viewbox": "viewBox", "preserveaspectratio": "preserveAspectRatio"}  # SVG minds the case

Attribute = str | int | float | bool | None


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def clean(text: str) -> str:
    """Replace what cannot stand in an HTML file by U+FFFD; line ends become line feeds."""
    return _UNSPEAKABLE.sub("\ufffd", text.replace("\r\n", "\n").replace("\r", "\n"))


def escape(text: str) -> Markup:
    """Text as HTML; Markup stays as it is."""
    return text if isinstance(text, Markup) else Markup(html.escape(clean(text), quote=True))


def join(*parts: str | Iterable[str] | None) -> Markup:
    """All parts behind each other; None is nothing, an iterable is joined, plain text is escaped."""
    return Markup("".join(_flat(parts)))


def element(tag: str, /, *parts: str | Iterable[str] | None, **attributes: Attribute) -> Markup:
    """`<tag attributes>parts</tag>`.

    Attribute names: a trailing _ is dropped and _ becomes - (class_, aria_label); None and False are left
    out, True stands alone. Tags and names come from our code, never from data.
    """
    written = "".join(_attribute(key, value) for key, value in attributes.items())
    if tag in _VOID:
        return Markup(f"<{tag}{written}>")
    return Markup(f"<{tag}{written}>{join(*parts)}</{tag}>")


def data_text(text: str, tag: str = "span", /, **attributes: Attribute) -> Markup:
    """Text that comes from data, set apart so that right-to-left writing stays inside it."""
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
