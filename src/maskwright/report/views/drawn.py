"""HTML of single examples: grids, flow charts, rows of tokens, code."""

from __future__ import annotations

from ..charts.flow import flow as flow_chart
from ..charts.grid import grid as grid_chart
from ..drawings import Flow, Grid, SourceCode, Token, Tokens
from ..markup import Markup, data_text, element, join
from .plain import note


def grid(block: Grid) -> Markup:
    """A shaded matrix."""
    return join(grid_chart(block), note(block.note))


def flow(block: Flow) -> Markup:
    """Boxes and arrows."""
    return join(flow_chart(block), note(block.note))


def tokens(block: Tokens) -> Markup:
    """Each row is a line of small boxes that wraps."""
    rows = [
        element(
            "div",
            element("span", label, class_="row-name", dir="auto") if label else None,
            element("span", [_token(token) for token in row], class_="pieces", dir="auto"),
            class_="token-row",
        )
        for label, row in block.rows
    ]
    return join(element("div", rows, class_="token-rows"), note(block.note))


def _token(token: Token) -> Markup:
    below = element("span", token.below, class_="under") if token.below else None
    return element("span", data_text(token.text, class_="text"), below, class_=f"token {token.kind}".strip())


def source_code(block: SourceCode) -> Markup:
    """Collapsible functions with their names."""
    parts = [
        element(
            "details", element("summary", element("code", name)), element("pre", element("code", text)), class_="code"
        )
        for name, text in block.functions
    ]
    return join(parts)
