"""The part "Why" of the answer pages in a real browser: what Python gives is shown, and changes are compared."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from browser.reading import all_barriers, cells, settled
from maskwright.api import open_model
from maskwright.inspect import explain, output_of, read
from studio.models import write_answerer, write_classifier, write_masked, write_tagger
from studio.serving import serving

TEXT = "the cat sat on the mat ."
MASKED = "the [MASK] sat on the mat ."


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    writers = {"class": write_classifier, "tag": write_tagger, "qa": write_answerer, "mask": write_masked}
    return {name: write(folder / name) for name, write in writers.items()}


@pytest.fixture(scope="module")
def served(tmp_path_factory, folders):
    with serving(tmp_path_factory.mktemp("runs"), *folders.values()) as found:
        yield found


@pytest.mark.parametrize(
    ("page", "name", "state", "text", "options"),
    [
        ("classify", "class", f"text={quote(TEXT)}", TEXT, {}),
        ("tag", "tag", f"text={quote(TEXT)}&word=4", TEXT, {"start": 4}),
        ("answer", "qa", f"question={quote('who sat ?')}&text={quote(TEXT)}", ("who sat ?", TEXT), {}),
        ("fill-mask", "mask", f"text={quote(MASKED)}", MASKED, {}),
    ],
)
def test_each_answer_page_shows_the_reasons(served, visit, folders, page, name, state, text, options):
    opened = visit(served, f"/{page}#why=yes&{state}", width=375, scheme="dark")
    settled(opened.page)
    expected = explain(output_of(read(open_model(folders[name], (), "cpu", "fp32"), text), **options))
    rows = cells(opened.page, "Contributions")
    assert [row[0] for row in rows] == [one.word for one in expected.words]
    shown = [[float(value.replace("\u2212", "-")) for value in row[1:]] for row in rows]
    for column, method in enumerate(("occlusion", "gradients")):
        assert [row[column] for row in shown] == pytest.approx(expected.attributions[method].tolist(), abs=2e-4)
    layers = cells(opened.page, "What each layer would have said")
    assert layers[-1][:2] == ["layer 2", expected.answer]
    assert f"\u201c{expected.answer}\u201d" in opened.page.locator(".finding").first.text_content()
    assert not opened.ask("document.documentElement.scrollWidth > innerWidth")
    assert not opened.page.get_by_text("Difference of the probabilities").is_visible()  # there is nothing to compare
    assert all_barriers(opened.page) == []
    assert opened.complaints == [] and opened.requests == []


def test_an_edited_word_is_compared(served, visit):
    opened = visit(served, f"/classify#why=yes&text={quote(TEXT)}")
    page = opened.page
    settled(page)
    page.get_by_role("button", name="cat", exact=True).click()
    page.keyboard.type("dog")
    settled(page)
    other = TEXT.replace("cat", "dog")
    assert page.get_by_label("Edited copy", exact=True).input_value() == other
    own = [served.post("/api/classify", {"model": "class", "text": text}).json()["answer"] for text in (TEXT, other)]
    rows = cells(page, "Both answers")
    assert {row[0] for row in rows} == set(own[0]["probabilities"])
    for label, first, second, _ in rows:
        assert [float(first), float(second)] == pytest.approx([one["probabilities"][label] for one in own], abs=1e-4)
    assert page.locator("figure", has_text="Difference of the probabilities").locator("svg").is_visible()
    assert all_barriers(page) == []
    page.reload()
    page.wait_for_selector("body[data-ready]")
    settled(page)
    assert [row[0] for row in cells(page, "Both answers")] == [row[0] for row in rows]
    assert opened.complaints == []


def test_the_nearest_change_is_found_and_compared(served, visit):
    opened = visit(served, f"/fill-mask#why=yes&text={quote(MASKED)}")
    page = opened.page
    settled(page)
    page.get_by_role("button", name="Find the nearest change of one word").click()
    settled(page)
    found = served.post("/api/why/changes", {"model": "mask", "text": MASKED}).json()
    assert found["flips"], "no change of one word changes the prediction of this model"
    assert [row[:2] for row in cells(page, "Nearest changes")] == [
        [one["word"], one["replacement"]] for one in found["flips"]
    ]
    assert all_barriers(page) == []
    page.get_by_role("button", name="Compare with").first.click()
    settled(page)
    assert page.get_by_label("Edited copy", exact=True).input_value() == found["flips"][0]["changed"]
    assert "The answer changes from" in page.locator(".finding").last.text_content()
    assert opened.complaints == []


def test_markup_in_a_text_stays_text_and_words_are_selected_by_letters(served, visit):
    page = visit(served, f"/classify#why=yes&text={quote('<img src=x onerror=alert(1)> cat 🙂 مرحبا')}").page
    settled(page)
    assert page.locator(".reading img").count() == 0 and "<" in [row[0] for row in cells(page, "Contributions")]
    page.get_by_role("button", name="cat", exact=True).click()
    assert page.evaluate("getSelection().toString()") == "cat"
