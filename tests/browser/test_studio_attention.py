"""Attention in a real browser, with MiniLM's real weights: what it shows is what `maskwright.inspect` gives."""

from __future__ import annotations

import pytest

from browser.reading import all_barriers, cells, saved, settled, unfold
from maskwright.api import open_model
from maskwright.inspect import attention, patterns_of
from maskwright.inspect.heads import clearest_head, describe_head
from minilm import minilm_folder
from studio.models import write_translator
from studio.serving import serving

TELLING = "The animal didn't cross the street because it was too tired."
TEXT = "The animal was too tired 🙂 to cross."


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    with serving(tmp_path_factory.mktemp("runs"), minilm_folder(), write_translator(folder / "translator")) as found:
        yield found


def shown_weights(page) -> list[list[float]]:
    unfold(page)
    return [[float(cell) for cell in row[1:-1]] for row in cells(page, "Weights as a table")]


def test_the_weights_of_the_chosen_head(served, visit):
    opened = visit(served, "/attention")
    page = opened.page
    page.get_by_label("Text", exact=True).fill(TEXT)
    settled(page)
    page.get_by_label("Layer", exact=True).select_option("4")
    settled(page)
    page.get_by_label("Head", exact=True).select_option("7")
    settled(page)
    found = attention(open_model(minilm_folder(), (), "cpu", "fp32"), TEXT).main
    expected = found.of(4, 7)
    assert shown_weights(page) == [pytest.approx(row, abs=6e-3) for row in expected.tolist()]
    assert [row[0] for row in cells(page, "Weights as a table")] == list(found.queries.labels)
    assert [row[-1] for row in cells(page, "Weights as a table")] == ["1.00"] * len(found.queries)
    assert "layer=4" in page.evaluate("location.href") and "head=7" in page.evaluate("location.href")
    assert opened.complaints == [] and opened.requests == []


def test_it_opens_on_the_clearest_head_and_says_what_it_does(served, visit):
    page = visit(served, "/attention").page
    settled(page)
    patterns = patterns_of(attention(open_model(minilm_folder(), (), "cpu", "fp32"), TELLING).main)
    layer, head = clearest_head(patterns)
    assert page.get_by_label("Text", exact=True).input_value() == TELLING
    assert page.get_by_label("Layer", exact=True).input_value() == str(layer)
    assert page.get_by_label("Head", exact=True).input_value() == str(head)
    assert page.locator(".finding").inner_text() == describe_head(patterns, layer, head)
    page.get_by_label("Head", exact=True).select_option(str(head % 12 + 1))
    settled(page)
    assert page.locator(".finding").inner_text() == describe_head(patterns, layer, head % 12 + 1)


def test_a_token_alone_by_keyboard_a_matrix_and_the_overview(served, visit):
    opened = visit(served, "/attention#text=the%20cat%20sat")
    page = opened.page
    settled(page)
    many = page.locator("figure svg .weight").count()
    page.locator(".pieces button").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    settled(page)
    assert 0 < page.locator("figure svg .weight").count() < many and "token=1" in page.evaluate("location.href")
    page.get_by_label("Show", exact=True).select_option("matrix")
    settled(page)
    assert page.locator("figure").first.locator("svg rect.cell").count() == 25
    assert all_barriers(page) == []
    page.locator("figure").nth(1).locator("svg g.pick").nth(12 + 4).click()
    settled(page)
    assert "layer=2" in page.evaluate("location.href") and "head=5" in page.evaluate("location.href")
    svg = saved(page, "Save the picture All heads; select one as SVG").decode()
    assert svg.count("<title>layer") == 6 * 12 and "var(" not in svg
    assert opened.complaints == [] and opened.requests == []


def test_query_and_key_make_the_weight(served, visit):
    opened = visit(served, "/attention#text=the%20cat%20sat&view=neurons&token=2&layer=3&head=2")
    page = opened.page
    settled(page)
    found = attention(open_model(minilm_folder(), (), "cpu", "fp32"), "the cat sat").main.of(3, 2)[2]
    texts = page.locator("figure").first.locator("svg > text").all_text_contents()
    assert [f"{value:.3f}" for value in found.tolist()] == [
        text for text in texts if text.startswith("0.") and len(text) == 5
    ]
    assert all_barriers(page) == []
    assert opened.complaints == [] and opened.requests == []


def test_a_translator_has_three_kinds(served, visit):
    opened = visit(served, "/attention#model=translator&text=the%20cat%20sat%20.&pair=rain%20fell&layer=1&head=1")
    page = opened.page
    settled(page)
    options = page.get_by_label("Attention", exact=True).locator("option").all_text_contents()
    assert options == ["encoder", "decoder", "cross"]
    model = open_model(served.studio.models["translator"].source, (), "cpu", "fp32")
    found = attention(model, "the cat sat .", target="rain fell")
    assert shown_weights(page) == [pytest.approx(row, abs=6e-3) for row in found.main.of(1, 1).tolist()]
    page.get_by_label("Attention", exact=True).select_option("decoder")
    settled(page)
    assert shown_weights(page) == [pytest.approx(row, abs=6e-3) for row in found.of("decoder").of(1, 1).tolist()]
    assert opened.complaints == [] and opened.requests == []
