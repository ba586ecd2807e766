"""Meaning and Layers in a real browser, with MiniLM's real weights: what Python gives is shown."""

from __future__ import annotations

import pytest

from browser.reading import cells, saved, settled
from maskwright.api import open_model, similarity
from maskwright.inference.layer_states import layer_states
from minilm import minilm_folder
from studio.models import write_masked
from studio.serving import serving

SENTENCES = ["He sat on the bank of the river.", "The bank raised its rates.", "A 🙂 bank by the river bank."]
HERE = {"device": "cpu", "precision": "fp32"}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    other = write_masked(tmp_path_factory.mktemp("models") / "masked")
    with serving(tmp_path_factory.mktemp("runs"), minilm_folder(), other) as found:
        yield found


def test_a_word_across_sentences(served, visit):
    opened = visit(served, "/meaning")
    page = opened.page
    page.get_by_label("Sentences, one per line").fill("\n".join(SENTENCES))
    settled(page)
    expected = similarity(minilm_folder(), SENTENCES, word="bank", **HERE)
    names = [place.name for place in expected.places]
    rows = cells(page, "Every pair")
    shown = {(row[0], row[1]): float(row[2]) for row in rows}
    own = {(names[i], names[j]): expected.matrix[i, j] for i in range(len(names)) for j in range(i + 1, len(names))}
    assert shown == pytest.approx(own, abs=1e-4)
    assert {float(row[3]) for row in rows} == {1.0}  # without context a word is one vector
    assert "Most similar: " in page.locator("p.reading").first.text_content()
    assert page.locator("figure svg circle").count() == len(names)
    assert opened.complaints == [] and opened.requests == []


def test_whole_sentences_and_another_layer(served, visit):
    opened = visit(served, "/meaning#word=")
    page = opened.page
    page.get_by_label("Sentences, one per line").fill("\n".join(SENTENCES))
    settled(page)
    expected = similarity(minilm_folder(), SENTENCES, **HERE)
    assert float(cells(page, "Every pair")[0][2]) == pytest.approx(expected.matrix[0, 1], abs=1e-4)
    page.get_by_label("Word to compare").fill("bank")
    page.get_by_label("Layer").select_option("0")
    settled(page)
    lowest = similarity(minilm_folder(), SENTENCES, word="bank", layers="0", **HERE)
    assert float(cells(page, "Every pair")[0][2]) == pytest.approx(lowest.matrix[0, 1], abs=1e-4)
    svg = saved(page, "Save the picture Cosine similarities as SVG").decode()
    assert "<title>" in svg and "var(" not in svg
    assert opened.complaints == [] and opened.requests == []


def test_the_difference_to_another_model_is_drawn(served, visit):
    opened = visit(served, "/meaning#word=&beside=masked")
    page = opened.page
    page.get_by_label("Sentences, one per line").fill("\n".join(SENTENCES))
    settled(page)
    found = [similarity(served.studio.model(name).source, SENTENCES, **HERE).matrix for name in served.studio.models]
    figure = page.locator("figure", has_text="Difference of the similarities: masked minus")
    shown = figure.locator("rect.cell title").all_text_contents()
    expected = (found[1] - found[0]).ravel()
    assert [float(one.split(": ")[-1]) for one in shown] == pytest.approx(expected.tolist(), abs=0.006)
    assert opened.complaints == []


@pytest.mark.parametrize("what", ["changes", "nearness", "norms"])
def test_layers_show_what_the_vectors_say(served, visit, what):
    text = "The bank by the river 🙂"
    opened = visit(served, f"/layers#what={what}&token=2")
    page = opened.page
    page.get_by_label("Text", exact=True).fill(text)
    settled(page)
    states = layer_states(open_model(minilm_folder(), (), "cpu", "fp32"), text)
    expected = {"changes": states.changes, "norms": states.norms, "nearness": lambda: states.similarities(2)}[what]()
    rows = cells(page, "As a table")
    assert [[float(cell) for cell in row[1:]] for row in rows] == [
        pytest.approx(own, abs=6e-4) for own in expected.tolist()
    ]
    assert [int(row[0]) for row in rows] == list(range(1 if what == "changes" else 0, states.states.shape[0]))
    assert opened.complaints == [] and opened.requests == []


def test_another_token_is_chosen_by_keyboard(served, visit):
    page = visit(served, "/layers#text=the%20bank%20of%20the%20river&token=1").page
    page.wait_for_selector(".pieces button")
    settled(page)
    page.locator(".pieces button").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.querySelectorAll('.pieces button')[2].ariaPressed === 'true'")
    assert "Cosine similarity to bank" in page.locator("figure h3").first.text_content()
