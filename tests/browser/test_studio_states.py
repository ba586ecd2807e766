"""What a page of the studio shows when something is missing, refused, very long, ended, or opened again."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from browser.reading import cells, saved, settled
from studio.models import write_answerer, write_chooser, write_classifier, write_tagger, write_translator, write_writer
from studio.serving import serving

FIELDS = {
    "classify": "Text",
    "tag": "Text",
    "choose": "Context",
    "answer": "Question",
    "translate": "Texts, one per line",
    "meaning": "Sentences, one per line",
    "attention": "Text",
}
WRITERS = (write_classifier, write_tagger, write_chooser, write_answerer, write_translator, write_writer)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    models = [make(folder / make.__name__) for make in WRITERS]
    with serving(tmp_path_factory.mktemp("runs"), *models) as found:
        yield found


@pytest.mark.parametrize(("name", "label"), FIELDS.items())
def test_without_a_text_no_answer_to_an_earlier_one_is_left(served, visit, name, label):
    page = visit(served, f"/{name}#word=").page
    settled(page)
    answer = page.locator("section").nth(1).locator(".result").first
    assert answer.is_visible()
    field = page.get_by_label(label, exact=True)
    field.fill("   ")
    settled(page)
    assert not answer.is_visible()
    assert "as soon as" in page.locator("section").nth(1).inner_text()
    field.fill("the cat sat")
    if name != "choose":
        settled(page)
        assert answer.is_visible()
        assert "as soon as" not in page.locator("section").nth(1).inner_text()


def test_what_a_refusal_leaves_is_dimmed(served, visit):
    page = visit(served, "/meaning").page
    settled(page)
    shown = page.locator("section").nth(1).locator(".result").first
    sentences = page.get_by_label("Sentences, one per line", exact=True)
    usual = sentences.input_value()
    sentences.fill("a bank\n" * 61)
    settled(page)
    assert "At most sixty sentences" in page.locator("#status").text_content()
    assert "stale" in shown.get_attribute("class")
    sentences.fill(usual)
    settled(page)
    assert page.locator("#status").text_content() == "" and "stale" not in shown.get_attribute("class")


def test_twenty_thousand_letters_are_shown_in_part_and_saved_in_whole(served, visit):
    opened = visit(served, f"/tokens#text={quote('cat ' * 5000)}")
    page = opened.page
    settled(page)
    assert page.locator(".pieces button").count() == 1000
    assert len(cells(page, "Every token")) == 1000
    assert "The first 1,000 of 5,002 rows" in page.locator("section").first.inner_text()
    assert saved(page, "Save the table Every token as CSV").count(b"\n") == 5003
    assert opened.complaints == []


def test_a_word_too_long_for_a_table_is_not_cut_unasked(served, visit):
    opened = visit(served, f"/tokens#text={'a' * 20000}")
    settled(opened.page)
    assert opened.page.locator("#status").text_content() == ""
    assert "The steps appear here" in opened.page.locator("main").inner_text()
    refused = served.post("/api/tokens/cut", {"model": next(iter(served.studio.models)), "words": "a" * 2001})
    assert refused.json()["error"] == "words exceeds the limit of 2,000 characters."


def test_continuations_come_back_with_the_address(served, visit):
    page = visit(served, "/generate#text=the%20cat&tokens=5").page
    page.get_by_role("button", name="Generate").click()
    page.wait_for_selector(".continuation")
    written = page.locator(".continuation").all_text_contents()
    page.reload()
    page.wait_for_selector(".continuation")
    assert page.locator(".continuation").all_text_contents() == written
    page.get_by_label("Seed").fill("7")
    assert "written" not in page.evaluate("location.hash")
    assert "stale" in page.locator(".result:has(> .continuation)").get_attribute("class")


def test_the_kind_of_attention_comes_back_and_does_not_stick(served, visit):
    page = visit(served, "/attention#model=write_translator&kind=encoder").page
    settled(page)
    kind = page.get_by_label("Attention", exact=True)
    assert kind.input_value() == "encoder" and "kind=encoder" in page.evaluate("location.hash")
    page.get_by_label("Model", exact=True).select_option("write_classifier")
    settled(page)
    assert page.locator("#status").text_content() == ""
    assert kind.locator("option").all_text_contents() == ["self-attention"]


def test_a_text_beyond_the_picture_is_said_to_be_cut(served, visit):
    page = visit(served, f"/attention#model=write_classifier&text={quote('cat ' * 300)}").page
    settled(page)
    most = page.locator(".pieces button").count()
    assert f"{most} of 302 tokens are read, {302 - most} truncated: the model reads at most {most}." in (
        page.locator("main").inner_text()
    )


def test_a_studio_that_ended_or_restarted_is_reported(visit, tmp_path):
    with serving(tmp_path / "runs", write_classifier(tmp_path / "classes")) as ended:
        page = visit(ended, "/classify").page
        settled(page)
        page.context.clear_cookies()  # as those of an earlier studio at the same port
        page.get_by_label("Text", exact=True).fill("the dog")
        settled(page)
        assert page.locator("#status").text_content() == (
            "Open the newest address that maskwright studio printed: it carries a key."
        )
        again = page.context.new_page()
        again.goto(ended.first_address)
        page.get_by_label("Text", exact=True).fill("the dog ran")
        settled(page)
        assert page.locator("#status").text_content() == ""
    page.get_by_label("Text", exact=True).fill("the dog ran home")
    settled(page)
    assert page.locator("#status").text_content() == "The studio does not answer: is it still running?"
