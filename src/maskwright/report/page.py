"""Self-contained HTML documents: policy, style and one script, made of the JavaScript modules in static/."""

from __future__ import annotations

import base64
import hashlib
import posixpath
import re
from functools import cache
from importlib import resources

from .numbers import Markup, clean, element

ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E"
    "%3Crect width='16' height='16' rx='3' fill='%23225ea8'/%3E%3Cpath d='M3 11h3M10 11h3' stroke='white' "
    "stroke-width='2'/%3E%3Crect x='6' y='5' width='4' height='7' fill='%23f0b429'/%3E%3C/svg%3E"
)


def page(title: str, style: str, body: Markup, script: str, styles: str = "'unsafe-inline'") -> str:
    """A self-contained HTML document whose policy allows no other script than `script`, which runs at its end."""
    policy = (
        f"default-src 'none'; style-src {styles}; script-src '{digest(script)}'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", clean(title)),
        element("link", rel="icon", href=ICON),
        element("style", Markup(style)),
    )
    whole = element("html", head, body, element("script", Markup(script)), lang="en")
    return f"<!doctype html>\n{whole}\n"


def digest(text: str) -> str:
    """As a policy names an inline script or style: the hash of its text."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


@cache
def static(name: str) -> str:
    """The text of a file in static/."""
    return resources.files(__package__).joinpath("static", *name.split("/")).read_text(encoding="utf-8")


@cache
def bundle(entry: str) -> str:
    """A JavaScript module of static/ and all that it imports, as one script without imports."""
    done: dict[str, str] = {}  # the text of each module by its path, after those that it imports

    def add(path: str) -> str:
        """Adds a module; returns the name of the constant that holds its exports."""
        if path in done:
            return f"module{list(done).index(path)}"
        text = static(path)
        for line, names, target in re.findall(r'^(import \{ (.*?) \} from "(.*?)";\n)', text, flags=re.MULTILINE):
            own = add(posixpath.normpath(posixpath.join(posixpath.dirname(path), target)))
            text = text.replace(line, f"const {{ {names.replace(' as ', ': ')} }} = {own};\n")
        exported = re.findall(r"^export (?:async )?(?:const|function) (\w+)", text, flags=re.MULTILINE)
        text = re.sub(r"^export ", "", text, flags=re.MULTILINE)
        name = f"module{len(done)}"
        done[path] = f"const {name} = (() => {{\n{text}return {{ {', '.join(exported)} }};\n}})();\n"
        return name

    add(entry)
    return f'"use strict";\n(() => {{\n{"".join(done.values())}}})();\n'
