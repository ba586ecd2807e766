"""The page Model in a real browser: blocks, a weight, and what an adapter changed, as Python gives them."""

from __future__ import annotations

import pytest

from browser.reading import all_barriers, cells, settled
from maskwright.inspect.structure import describe_weight, model_structure, weight_differences
from studio.serving import serving


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("runs"), "english-spam", "english") as found:
        yield found


def test_from_a_block_to_a_weight_and_its_change(served, visit):
    opened = visit(served, "/model#text=The%20cat%20sat.")
    page = opened.page
    settled(page)
    model = served.studio.models["english-spam"].model
    structure = model_structure(model, "The cat sat.")
    assert page.locator(".flow .block .title").all_text_contents() == [block.title for block in structure.blocks]
    assert page.locator(".flow .block .shape").all_text_contents() == [
        " × ".join(map(str, block.output)) for block in structure.blocks
    ]
    changes, _ = weight_differences(model, None)
    most = max(changes, key=lambda name: changes[name])
    assert f"most of all {most} ({changes[most]:.1%})" in page.locator("p.reading").text_content()
    rows = {row[0]: row for row in cells(page, "Every weight")}
    assert list(rows) == [weight.name for block in structure.blocks for part in block.parts for weight in part.weights]
    assert rows[most][3] == f"{changes[most]:.1%}"

    page.get_by_role("button", name=most, exact=True).click()
    settled(page)
    shape = " × ".join(map(str, model.get_parameter(most).shape))
    assert page.locator(".beside-flow h3").first.text_content() == f"{most}: {shape}"
    found = describe_weight(model, most)
    bars = page.locator(".beside-flow figure").first.locator("rect.bar title").all_text_contents()
    assert [int(bar.rpartition(": ")[2].replace(",", "")) for bar in bars] == found["counts"]
    assert page.locator(".flow .link[aria-pressed=true]").get_attribute("title") == most
    assert all_barriers(page) == []
    address = page.evaluate("location.href").removeprefix(served.origin)
    again = visit(served, address).page
    settled(again)
    assert again.locator(".beside-flow h3").first.text_content() == f"{most}: {shape}"
    assert opened.complaints == [] and opened.requests == []


def test_a_whole_model_is_compared_with_another(served, visit):
    page = visit(served, "/model#model=english").page
    settled(page)
    assert page.get_by_label("Compare with").input_value() == "english-spam"
    assert "Only this model has head.bias" in page.locator("p.reading").text_content()
    page.get_by_label("Text that flows through the model").fill("cat " * 5000)
    settled(page)
    assert "4,490 tokens were truncated" in page.locator("p.note", has_text="Shapes").text_content()
    page.locator(".flow .block", has_text="head").click()
    settled(page)
    assert "product with the word embeddings" in page.locator(".flow .parts").text_content()
