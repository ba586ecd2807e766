"""Five questions of a student, each answered from the first page of `maskwright studio` in at most five clicks."""

from __future__ import annotations

import re

import pytest

from browser.reading import cells, settled
from maskwright.api import open_model
from maskwright.hub.published import MANIFESTS
from maskwright.inspect import attention, explain, output_of, read
from maskwright.inspect.heads import find_token_heads
from maskwright.inspect.structure import weight_differences
from studio.serving import serving

MOST_CLICKS = 5


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("runs"), *MANIFESTS) as found:
        yield found


@pytest.fixture
def visitor(served, visit):
    """The first page, a function for what clicks do, and one for the menu; in the end, the clicks are counted."""
    opened = visit(served, "/")
    page, clicks = opened.page, 0

    def act(action, count: int = 1) -> None:
        nonlocal clicks
        clicks += count
        action()
        settled(page)

    def go_to(title: str) -> None:
        act(page.get_by_role("navigation").get_by_role("link", name=title, exact=True).click)
        page.wait_for_selector(f"body[data-ready] h1:text-is('{title}')")
        settled(page)

    yield page, act, go_to
    assert 0 < clicks <= MOST_CLICKS
    assert opened.complaints == [] and opened.requests == []


def test_which_head_finds_the_verb(visitor, served):
    page, act, go_to = visitor
    go_to("Attention")
    model = served.studio.models[page.get_by_label("Model", exact=True).input_value()].model
    map = attention(model, page.get_by_label("Text", exact=True).input_value()).main
    act(page.get_by_role("list", name="Tokens").get_by_role("button", name="cross", exact=True).click)
    found = find_token_heads(map, map.keys.labels.index("cross"))
    assert found is not None
    best = found.heads[0]
    row = cells(page, "Head functions")[0]
    assert row[0] == "the selected token “cross”" and row[2] == f"{best.layer}·{best.head}"
    assert float(row[3]) == pytest.approx(best.score, abs=0.006) and best.score > 2 * best.even
    act(page.get_by_role("region", name="Head functions").get_by_role("button", name=row[2], exact=True).first.click)
    assert page.get_by_label("Layer", exact=True).input_value() == str(best.layer)
    assert page.get_by_label("Head", exact=True).input_value() == str(best.head)
    weights = map.of(best.layer, best.head)[:, map.keys.labels.index("cross")]
    assert page.locator("figure svg .weight.to").count() == int((weights >= 0.01).sum()) - int(
        weights[map.keys.labels.index("cross")] >= 0.01
    )


def test_where_does_it_fail(visitor):
    page, _, go_to = visitor
    go_to("Data set")
    told = page.locator("p.reading").first.text_content()
    right, rows = map(int, re.match(r"(\d+) of (\d+) rows are right", told).groups())
    assert right < rows and "Most common error: " in told
    assert len(cells(page, "Rows")) == rows - right
    fractions = [row[2] for row in cells(page, "Slices")]
    assert fractions == sorted(fractions, key=lambda text: float(text.rstrip("%")))


def test_what_did_fine_tuning_change(visitor, served):
    page, act, go_to = visitor
    go_to("Model")
    act(lambda: page.get_by_label("Model", exact=True).select_option("english-spam"), 2)
    changes, _ = weight_differences(served.studio.models["english-spam"].model, None)
    most = max(changes, key=lambda name: changes[name])
    told = page.locator("p.reading").text_content()
    assert told.startswith("Compared with its base, ") and f"most of all {most} ({changes[most]:.1%})" in told


def test_why_this_label(visitor, served):
    page, act, go_to = visitor
    go_to("Classify")
    act(page.get_by_label("Explain the answer as I type").check)
    name = page.get_by_label("Model", exact=True).input_value()
    text, pair = (page.locator(f"textarea[name={field}]").input_value() for field in ("text", "pair"))
    model = open_model(name, (), "cpu", "fp32")
    found = explain(output_of(read(model, (text, pair) if pair else text)))
    told = page.locator(".finding").first.text_content()
    best = found.words[int(found.attributions["occlusion"].argmax())].word
    assert f"“{best}”" in told and f"“{found.answer}”" in told


def test_which_texts_are_near(visitor):
    page, act, go_to = visitor
    go_to("Projector")
    at = page.evaluate("document.querySelector('.cloud-box').placeOf(7)")
    act(lambda: page.locator("canvas").click(position={"x": at[0], "y": at[1]}))
    rows = cells(page, "Nearest texts")
    assert len(rows) == 11 and float(rows[1][0]) >= float(rows[-1][0]) > 0
    assert f"“{rows[0][2]}”" in page.locator("p.reading").first.text_content()
