"""Inspect in a real browser: the views of the file that `maskwright inspect` writes, as a page of the studio."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from browser.reading import barriers, saved, settled
from maskwright.api import open_model
from maskwright.inspect import attention, render
from maskwright.inspect.view import look
from studio.models import write_classifier, write_masked, write_translator
from studio.serving import serving

TEXT = "the cat [MASK] on the mat ."


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    writers = {"masked": write_masked, "classifier": write_classifier, "translator": write_translator}
    return {name: write(folder / name) for name, write in writers.items()}


@pytest.fixture(scope="module")
def served(tmp_path_factory, folders):
    with serving(tmp_path_factory.mktemp("runs"), *folders.values()) as found:
        yield found


def ready(page):
    """Wait until the views are drawn for the last request."""
    settled(page)
    page.wait_for_selector("#panel")


@pytest.mark.parametrize(
    ("name", "width", "scheme"),
    [("masked", 375, "dark"), ("classifier", 1400, "light"), ("translator", 375, "light")],
)
def test_every_view_of_the_file_is_a_view_of_the_page(served, visit, name, width, scheme):
    opened = visit(served, f"/inspect#model={name}&text={quote(TEXT)}", width=width, scheme=scheme)
    page = opened.page
    ready(page)
    tabs = page.get_by_role("tab").all_text_contents()
    assert tabs[:8] == ["Overview", "Lines", "Matrix", "Neurons", "Steps", "Heads", "Flow", "Layers"]
    assert tabs[8:] == {"masked": ["Predictions", "Attributions"], "classifier": ["Attributions"]}.get(
        name, ["Predictions"]
    )
    for tab in tabs:
        page.get_by_role("tab", name=tab).click()
        ready(page)
        assert f"view={tab.lower()}" in opened.ask("location.hash")
        assert page.locator(f"#panel.{tab.lower()} .content").inner_text().strip() or tab == "Overview"
        assert opened.ask("document.documentElement.scrollWidth") == width, tab
        assert barriers(page) == [], tab
    assert opened.complaints == [] and opened.requests == []


def test_the_weights_are_those_of_the_model_and_the_address_restores_the_view(served, visit, folders):
    page = visit(served, f"/inspect#model=masked&text={quote(TEXT)}&view=lines&layer=2&heads=3&token=2").page
    ready(page)
    weights = attention(open_model(folders["masked"], (), "cpu", "fp32"), TEXT).main.of(2, 3)[2]
    told = page.locator("#panel .note").first.inner_text()
    assert "Layer 2, head 3: cat attends to" in told
    assert f"{100 * weights.max():.0f} %" in told or f"{100 * weights.max():.1f} %" in told
    page.get_by_label("Text", exact=True).fill("the dog [MASK] on the mat .")
    ready(page)
    assert "Layer 2, head 3: " in page.locator("#panel .note").first.inner_text()
    page.keyboard.press("Tab")
    assert "view=lines" in page.evaluate("location.hash") and "dog" in page.evaluate("location.hash")
    page.get_by_role("button", name="Theme").click()
    assert page.locator("#panel .links path").count() > 0


def test_two_texts_and_two_models_are_compared(served, visit):
    opened = visit(served, f"/inspect#model=masked&text={quote(TEXT)}&against={quote('the dog [MASK] on the mat .')}")
    page = opened.page
    ready(page)
    assert page.get_by_role("tab", selected=True).inner_text() == "Lines"
    assert page.locator("#panel h2").all_text_contents() == [TEXT, "the dog [MASK] on the mat ."]
    page.get_by_label("Other text").fill("")
    page.get_by_label("Other model").select_option("classifier")
    page.get_by_role("tab", name="Heads").click()
    ready(page)
    assert "Similar layers" in page.locator("#panel").inner_text()
    page.get_by_label("Other text").fill("the dog")
    settled(page)
    assert "not with both" in page.locator("#status").text_content()
    assert [one for one in opened.complaints if "422" not in one] == []


def test_the_saved_file_is_that_of_the_command(served, visit, folders):
    page = visit(served, f"/inspect#model=classifier&text={quote('the cat <b>sat</b>')}").page
    ready(page)
    file = saved(page, "Save as HTML file: all views, without the studio").decode()
    model = open_model(folders["classifier"], (), "cpu", "fp32")
    assert file == render([look(model, "the cat <b>sat</b>", name="classifier", max_length=64)])
