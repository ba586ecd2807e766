"""One HTML file that shows what a model does with a text: our own script and style inside, nothing from outside.

    data.py     what is shown, as JSON          style.css   light and dark, 375 to 1600 pixels
    *.js        one file for each view, joined in the order of SCRIPTS; the studio shows the same as a part of its page

Texts reach the page as JSON and are set as text nodes alone. The policy in its head lets this one script and this one
style run, by their hashes, and nothing be fetched.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib import resources
from pathlib import Path

from ...core import storage
from ...core.util import plural
from ...report.numbers import Markup, clean, element
from ...report.page import ICON
from ..compare import ModelComparison
from ..moves import AttentionChanges
from ..view import Inspection
from .data import page_data

SCRIPTS = (
    "tools", "picture", "data", "state", "tokens", "overview", "lines", "matrix", "neurons", "steps", "heads", "flow",
    "layers", "predictions", "attributions", "differences", "main",
)  # fmt: skip
# Then `file` for a separate file, or `part` for a part of another page.


def render(
    looks: Sequence[Inspection],
    moves: AttentionChanges | None = None,
    comparison: ModelComparison | None = None,
    title: str | None = None,
) -> str:
    """The page of one text in one model, or of two readings side by side. Pure: the same page for the same content.

    moves: which heads moved between two texts; comparison: of two models; title: None for the text itself.
    """
    style, script = _style(), _script()
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    names = " and ".join(dict.fromkeys(one.name for one in looks))
    shown = title or looks[0].attention.maps[0].keys.text
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", clean(f"{' '.join(shown.split())[:80]} · {names} · attention")),
        element("link", rel="icon", href=ICON),
        element("style", style),
    )
    body = element(
        "body",
        element("noscript", element("p", _without_script(looks))),
        element("div", id="app"),
        element("script", Markup(page_data(list(looks), moves, comparison)), type="application/json", id="data"),
        element("script", script),
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def write_page(
    path: Path | str,
    looks: Sequence[Inspection],
    moves: AttentionChanges | None = None,
    comparison: ModelComparison | None = None,
    title: str | None = None,
) -> None:
    """Write the page as one file, complete or not at all. Raises StorageError if writing fails."""
    storage.write_text(path, render(looks, moves, comparison, title))


def _without_script(looks: Sequence[Inspection]) -> str:
    tokens = plural(len(looks[0].attention.main.queries), "token")
    return f"This page draws the attention of {looks[0].name} over {tokens}. It needs the script that is inside it."


def style() -> str:
    """The style sheet of the page."""
    return _file("style.css")


def module() -> str:
    """The page as a JavaScript module, for a page that shows it as a part."""
    return _joined("part")


@cache
def _style() -> Markup:
    return Markup(style())


@cache
def _script() -> Markup:
    return Markup(f'"use strict";\n(() => {{\n{_joined("file")}\n}})();\n')


def _joined(last: str) -> str:
    return "\n".join(_file(f"{name}.js") for name in (*SCRIPTS, last))


def _file(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """As a policy names an inline element: the digest of its text."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
