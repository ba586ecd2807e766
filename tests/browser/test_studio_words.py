"""The studio's pages on text and masks in a real browser: what they show is what the Python functions give."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from urllib.parse import quote

import pytest

from browser.reading import ROWS, cells, saved, settled
from maskwright.api import open_mask_filler
from maskwright.text.tokenizers.explain import SegmentationTracer, explain, format_subwords, parse_words
from studio.models import tokenizer, write_masked
from studio.serving import serving

NEW = "dogs chase unbelievably naïve cats 🙂 ."


@pytest.fixture(scope="module")
def masked(tmp_path_factory) -> Path:
    return write_masked(tmp_path_factory.mktemp("models") / "masked")


@pytest.fixture(scope="module")
def served(masked, tmp_path_factory):
    with serving(tmp_path_factory.mktemp("runs"), masked) as found:
        yield found


# -- tokens --------------------------------------------------------------------------------------------------------


def test_tokens_show_pieces_ids_places_and_both_notations(served, visit):
    opened = visit(served, "/tokens")
    page = opened.page
    page.get_by_label("Text", exact=True).fill(NEW)
    encoding = tokenizer()(NEW)
    page.wait_for_function("count => document.querySelectorAll('.pieces li').length === count", arg=len(encoding))
    rows = cells(page, "Every token")
    assert [row[1] for row in rows] == encoding.tokens
    assert [int(row[2]) for row in rows] == encoding.ids
    places = ["" if source is None else f"{a}–{b}" for (a, b), source in zip(encoding.offsets, encoding.sequence_ids)]  # noqa: B905
    assert [row[4] for row in rows] == places
    assert [row[5] for row in rows][1:-1] == [NEW[a:b] for a, b in encoding.offsets][1:-1]
    own = tokenizer().encode_plain([NEW])[0]
    shown = page.locator(".notation dd").all_text_contents()
    assert shown == [format_subwords(tokenizer(), own, "right"), format_subwords(tokenizer(), own, "left")]
    assert opened.complaints == [] and opened.requests == []


def test_choosing_a_piece_shows_the_steps_that_cut_its_word(served, visit):
    page = visit(served, f"/tokens#text={quote('the unbelievably café')}").page
    page.locator(".piece", has_text="un").first.click()
    page.wait_for_selector('[role="region"][aria-label="unbelievably"]')
    word = SegmentationTracer(tokenizer()).cut("unbelievably").words[0]
    rows = cells(page, "unbelievably")
    assert [row[1] for row in rows] == [step.taken for step in word.steps]
    assert [row[3].split() for row in rows] == [step.tried for step in word.steps]
    assert "cut=unbelievably" in page.evaluate("location.href")


def test_the_merges_of_the_lecture_are_counted_as_on_its_slides(served, visit):
    page = visit(served, "/tokens").page
    page.wait_for_selector('[role="region"][aria-label="Counts after each merge"] tbody tr')
    rows = {row[0]: row[1:] for row in cells(page, "Counts after each merge")}
    first = explain(parse_words("old:7,older:3,finest:9,lowest:4"), num_merges=5).start
    assert {name: row[0] for name, row in rows.items() if row[0]} == {name: str(count) for name, count in first.items()}
    assert rows["e"][1] == "16−13=3" and rows["s"][1] == "13−13=0" and rows["es"][1] == "13"
    assert rows["es"][2] == "13−13=0" and rows["</w>"][3] == "23−13=10" and rows["old"][5] == "10"
    page.get_by_label("Merges").fill("2")
    page.wait_for_function("() => document.querySelectorAll('.matrix thead th').length === 4")
    data = saved(page, "Save the table Counts after each merge as CSV").decode()
    table = list(csv.reader(io.StringIO(data)))
    assert table[0] == ["symbol", "start", "1: es", "2: est"]
    assert ["e", "16", "3", "3"] in table


# -- fill mask -----------------------------------------------------------------------------------------------------


def test_masks_show_what_the_filler_gives(served, masked, visit):
    opened = visit(served, "/fill-mask")
    page = opened.page
    text = "the [MASK] sat on the [MASK] 🙂 ."
    page.get_by_label("Text", exact=True).fill(text)
    page.get_by_label("Score these words").fill("cat river")
    filler = open_mask_filler(masked, device="cpu", precision="fp32")
    expected = filler.fill([text], 8)[0]
    page.wait_for_selector('[role="region"][aria-label^="Your words"] >> nth=1')
    tables = page.locator('[role="region"][aria-label$="as a table"]')
    for index, mask in enumerate(expected.masks):
        shown = tables.nth(index).locator("tbody tr").evaluate_all(ROWS)
        assert [row[1] for row in shown] == [one.token_str for one in mask.candidates]
        assert [float(row[2]) for row in shown] == pytest.approx([one.score for one in mask.candidates], abs=1e-6)
        assert [row[4] for row in shown] == [one.sequence for one in mask.candidates]
    asked = filler.fill([text], None, ["cat", "river"])[0].masks[0].candidates
    own = page.locator('[role="region"][aria-label^="Your words"]').first.locator("tbody tr").evaluate_all(ROWS)
    assert [(int(row[0]), row[1]) for row in own] == [(one.rank, one.token_str) for one in asked]
    assert opened.complaints == [] and opened.requests == []


def test_a_word_becomes_a_gap_and_comes_back_by_keyboard(served, visit):
    page = visit(served, f"/fill-mask#text={quote('the cat sat here .')}").page
    page.wait_for_selector(".pieces button")
    page.locator(".pieces button").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.querySelector('textarea').value === 'the [MASK] sat here .'")
    page.wait_for_selector('[role="region"][aria-label="As a table"]')
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.querySelector('textarea').value === 'the cat sat here .'")
    settled(page)
    assert "no mask" in page.locator("section").nth(1).text_content()


def test_pictures_are_saved_as_svg_and_png_with_their_colours(served, visit):
    page = visit(served, "/fill-mask").page
    page.wait_for_selector("figure svg")
    svg = saved(page, "Save the picture Most probable tokens as SVG").decode()
    assert svg.startswith("<svg") and "var(" not in svg and "class=" not in svg and "rgb(" in svg
    assert "<script" not in svg
    png = saved(page, "Save the picture Most probable tokens as PNG")
    assert png.startswith(b"\x89PNG") and len(png) > 2000
