"""HTML of tables: plain tables, checkpoints, and lists of weights."""

from __future__ import annotations

import re

from .. import numbers
from ..content import Table, Value
from ..findings import Checkpoints, Weights
from ..markup import Markup, element, join
from .plain import note

# Right-aligned cells: "1,204", "31.2 %", "0.894 ± 0.004", "3 min 20 s", "–".
_NUMBER = re.compile(r"[–−+]?|[−+]?[\d.,]+(e[−+]?\d+)?(\s?(%|[kMG]?B|ms|s|min|h|d|±|[\d.,]+))*")

LONG_WORD = 40  # characters; a longer one may be broken anywhere


def table(block: Table) -> Markup:
    """A plain table in a box that scrolls if it is too wide."""
    columns = [numbers.column(values) for values in zip(*block.rows, strict=True)]
    cells = [list(row) for row in zip(*columns, strict=True)]
    right = _right_columns(block, cells)
    head = element("tr", [head_cell(name, number in right) for number, name in enumerate(block.columns)])
    rows = [
        element(
            "tr",
            [cell(text, number in right) for number, text in enumerate(row)],
            class_="strong" if index in block.strong else None,
        )
        for index, row in enumerate(cells)
    ]
    return join(wide(element("table", element("thead", head), element("tbody", rows))), note(block.note))


def wide(content: Markup) -> Markup:
    """A box that scrolls horizontally, also with the keyboard."""
    return element("div", content, class_="wide", role="group", aria_label="Table", tabindex=0)


def checkpoints(block: Checkpoints) -> Markup:
    """Steps and scores; the best checkpoint is emphasized, removed ones are marked."""
    scores = list(dict.fromkeys(name for one in block.checkpoints for name in one.scores))
    has_size = any(one.size_bytes is not None for one in block.checkpoints)
    has_path = any(one.path for one in block.checkpoints)
    columns = ["Step", *scores, *["Size"] * has_size, *["Folder"] * has_path, "State"]
    rows: list[list[Value]] = []
    for one in block.checkpoints:
        row: list[Value] = [one.step, *(one.scores.get(name) for name in scores)]
        row += [numbers.file_size(one.size_bytes) if one.size_bytes is not None else None] * has_size
        row += [one.path] * has_path
        rows.append([*row, "best" if one.is_best else "" if one.is_kept else "removed"])
    strong = [number for number, one in enumerate(block.checkpoints) if one.is_best]
    return table(Table(columns, rows, note=block.note, strong=strong, right=[*scores, "Size"]))


def weights(block: Weights) -> Markup:
    """Number of parameters of each kind, with collapsible lists of names."""
    kinds = (
        ("loaded", "Loaded from the model folder", block.loaded),
        ("new", "Newly initialized, trained in this run", block.new),
        ("unused", "In the file, not used by this model", block.unused),
    )
    parts = []
    for key, about, found in kinds:
        amount = element("span", numbers.count(len(found)), class_="amount")
        words = element("span", about)
        if not found:
            parts.append(element("p", amount, words, class_=f"weights {key}"))
            continue
        listed = element("ul", [element("li", element("code", name)) for name in found])
        parts.append(element("details", element("summary", amount, words), listed, class_=f"weights {key}"))
    return join(parts)


def _right_columns(block: Table, cells: list[list[str]]) -> set[int]:
    if block.right is not None:
        return {number for number, name in enumerate(block.columns) if name in block.right}
    columns = range(1, len(block.columns))  # the first column names the row, number or not
    return {number for number in columns if all(_NUMBER.fullmatch(row[number].strip()) for row in cells)}


def head_cell(name: str, is_right: bool = False) -> Markup:
    """A column's heading; an empty one is no heading."""
    if not name:
        return element("td")
    return element("th", name, class_="number" if is_right else None, scope="col", dir="auto")


def cell(text: str, is_right: bool) -> Markup:
    """A right-aligned number, or text. A single short word (a path) is not broken, a very long one is."""
    if is_right:
        return element("td", text, class_="number")
    longest = max((len(word) for word in text.split()), default=0)
    class_ = "long" if longest >= LONG_WORD else "together" if longest == len(text) else None
    return element("td", text, dir="auto", class_=class_)
