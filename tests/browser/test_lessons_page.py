"""The page of the lessons in a real browser: narrow and wide, light and dark, with everything unfolded."""

from typing import Any

import pytest

from browser.test_report_page import CONTRASTS, ENOUGH
from maskwright.lessons.page import report
from maskwright.lessons.running import run
from maskwright.report import render

# Between them they have every kind of picture: tables, tokens, bars, curves, grids, flows, maps of blocks.
CHOSEN = ("bpe-encoding", "toy-scores", "three-attentions", "milk-sentence", "big-bird", "sinusoids", "attention-table")
UNFOLD = "() => document.querySelectorAll('details').forEach((one) => { one.open = true; })"


@pytest.fixture(scope="module")
def html() -> str:
    return render(report([run(name) for name in CHOSEN]))


@pytest.mark.parametrize(("width", "scheme"), [(375, "dark"), (1400, "light")])
def test_it_fits_asks_for_nothing_and_can_be_read(open_page: Any, html: str, width: int, scheme: str):
    opened = open_page(html, width, scheme)
    opened.ask(UNFOLD)
    assert opened.complaints == [] and opened.requests == []
    assert opened.ask("document.documentElement.scrollWidth") == width
    assert [entry for entry in opened.ask(CONTRASTS) if entry[0] < ENOUGH] == []
