"""Classify, Tag, Choose, Answer, Generate, Translate in a real browser: what Python gives is shown."""

from __future__ import annotations

import csv
from functools import partial
from pathlib import Path

import pytest

from browser.reading import cells, saved, settled, unfold
from maskwright.api import open_answerer, open_generator, open_predictor, open_translator
from maskwright.inference.generate import Generation
from maskwright.inference.translate import TranslationSettings
from maskwright.models.decoding.rules import Rules
from maskwright.tasks.translation import alignments
from maskwright.text.readers.choices import choices_of
from studio.models import (
    write_answerer,
    write_autoencoder,
    write_chooser,
    write_classifier,
    write_recurrent_translator,
    write_tagger,
    write_translator,
    write_writer,
)
from studio.serving import serving

MOST_SPANS = 1000  # that are marked in a text
HERE = {"device": "cpu", "precision": "fp32"}


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    makers = {
        "classes": write_classifier,
        "names": write_tagger,
        "choices": write_chooser,
        "answers": write_answerer,
        "writer": write_writer,
        "translator": partial(write_translator, num_decoder_layers=3),
        "recurrent": write_recurrent_translator,
        "vector": write_autoencoder,
    }
    return {name: make(folder / name) for name, make in makers.items()}


@pytest.fixture(scope="module")
def served(models, tmp_path_factory):
    with serving(tmp_path_factory.mktemp("runs"), *models.values()) as found:
        yield found


def test_classes_and_their_probabilities(served, models, visit):
    opened = visit(served, "/classify")
    page = opened.page
    page.get_by_label("Text", exact=True).fill("the dogs 🙂 sat")
    expected = open_predictor(models["classes"], **HERE).predict(["the dogs 🙂 sat"])[0]
    page.wait_for_function("text => document.querySelector('.figures dd')?.textContent === text", arg=expected["label"])
    settled(page)
    shown = {row[0]: float(row[1]) for row in cells(page, "As a table")}
    assert shown == pytest.approx(expected["probabilities"], abs=1e-6)
    assert "'=1+1," in saved(page, "Save the table As a table as CSV").decode()  # a formula is no formula any more
    page.get_by_text("With a second text").click()
    page.get_by_label("Second text").fill("the river rose")
    settled(page)
    pair = open_predictor(models["classes"], **HERE).predict([("the dogs 🙂 sat", "the river rose")])[0]
    assert {row[0]: float(row[1]) for row in cells(page, "As a table")} == pytest.approx(
        pair["probabilities"], abs=1e-6
    )
    assert opened.complaints == [] and opened.requests == []


def test_spans_are_marked_where_they_stand(served, models, visit):
    text = "🙂 ada lovelace met charles babbage in london ."
    opened = visit(served, "/tag")
    page = opened.page
    page.get_by_label("Text", exact=True).fill(text)
    settled(page)
    expected = open_predictor(models["names"], **HERE).predict([text])[0]
    assert [row[:4] for row in cells(page, "Spans")] == [
        [one["type"], one["text"], str(one["start"]), str(one["end"])] for one in expected["entities"]
    ]
    assert [row[1] for row in cells(page, "Every word")] == expected["tags"]
    marked = page.locator(".reading .span").evaluate_all("all => all.map((one) => one.firstChild.textContent)")
    assert marked == [text[one["start"] : one["end"]] for one in expected["entities"]]
    assert expected["entities"], "the small model finds nothing: the test would show nothing"
    assert opened.complaints == [] and opened.requests == []


def test_of_very_many_spans_the_first_are_marked(served, models, visit):
    text = "ada lovelace met charles babbage in london . " * 600
    opened = visit(served, "/tag")
    page = opened.page
    page.get_by_label("Text", exact=True).fill(text)
    settled(page)
    count = len(open_predictor(models["names"], **HERE).predict([text])[0]["entities"])
    assert count > MOST_SPANS, "the small model finds too little: the test would show nothing"
    assert page.locator(".reading .span").count() == MOST_SPANS
    assert f"The first {MOST_SPANS:,} of {count:,} are marked" in page.locator("main").inner_text()
    assert len(saved(page, "Save the table Spans as CSV").decode().splitlines()) == count + 1
    assert opened.complaints == [] and opened.requests == []


def test_truncation_of_a_long_text_is_reported(served, visit):
    opened = visit(served, "/classify")
    page = opened.page
    page.get_by_label("Text", exact=True).fill("the cat " * 100)
    settled(page)
    assert "truncated: the maximum length is 64" in page.locator("main").inner_text()
    page.get_by_label("Text", exact=True).fill("the cat")
    settled(page)
    assert "truncated" not in page.locator("main").inner_text()
    assert opened.complaints == [] and opened.requests == []


def test_the_choice_and_its_rivals(served, models, visit):
    opened = visit(served, "/choose")
    page = opened.page
    page.get_by_label("Context").fill("the cat")
    page.get_by_label("Choices, one per line").fill("sat on the mat\nrose after the rain\nchased dogs")
    settled(page)
    row = {"context": "the cat", "choices": ["sat on the mat", "rose after the rain", "chased dogs"]}
    rows = choices_of([row], with_labels=False)
    expected = next(answer for _, answer in open_predictor(models["choices"], **HERE).stream(rows))
    assert page.locator("mark").text_content() == expected["choice"]
    assert [float(row[1]) for row in cells(page, "As a table")] == pytest.approx(expected["probabilities"], abs=1e-6)
    assert opened.complaints == [] and opened.requests == []


def test_the_answer_is_marked_in_the_text(served, models, visit):
    question, context = "where does the river rise ?", "🙂 it rises in the mountains of france ."
    opened = visit(served, "/answer")
    page = opened.page
    page.get_by_label("Question").fill(question)
    page.get_by_label("Context").fill(context)
    settled(page)
    expected = open_answerer(models["answers"], **HERE).answer([(question, context)], 5)[0]
    rows = cells(page, "Best answer spans")
    assert [(row[0], int(row[1]), int(row[2])) for row in rows] == [
        (one["answer"], one["start"], one["end"]) for one in expected.candidates
    ]
    assert [float(row[3]) for row in rows] == pytest.approx([one["score"] for one in expected.candidates], abs=1e-6)
    marked = page.locator(".reading .span").all_text_contents()
    start, end = expected.answer["start"], expected.answer["end"]
    assert marked == ([] if start is None else [context[start:end]])
    assert opened.complaints == [] and opened.requests == []


def test_suggestions_are_chosen_and_cancelled_by_keys(served, models, visit):
    opened = visit(served, "/generate")
    page = opened.page
    area = page.get_by_label("Text", exact=True)
    area.fill("the cat")
    area.press("End")
    expected = open_generator(models["writer"], **HERE).complete("the cat", 3)
    options = page.locator("#suggestions li")
    page.wait_for_function(
        "texts => [...document.querySelectorAll('#suggestions li')].map((one) => one.textContent).join('|') === texts",
        arg="|".join(one.text for one in expected),
    )
    selected = "[...document.querySelectorAll('#suggestions li')].findIndex((one) => one.ariaSelected === 'true')"
    assert opened.ask(selected) == 0
    area.press("ArrowDown")
    area.press("ArrowDown")
    area.press("ArrowDown")
    assert opened.ask(selected) == 0  # around the end
    area.press("ArrowUp")
    assert opened.ask(selected) == 2
    assert area.get_attribute("aria-activedescendant") == "suggestion-2"
    area.press("Enter")
    assert area.input_value() == "the cat" + expected[2].text
    settled(page)
    assert options.count() == 3
    before = area.input_value()
    area.press("Escape")
    assert options.count() == 0 and area.input_value() == before
    area.press("Enter")
    assert area.input_value() == before + "\n"
    assert opened.complaints == [] and opened.requests == []


def test_longer_texts_are_those_of_the_seed(served, models, visit):
    opened = visit(served, "/generate#text=the%20river&tokens=12&seed=7&temperature=0.9&top_k=20")
    page = opened.page
    page.get_by_role("button", name="Generate").click()
    page.wait_for_selector(".continuation")
    settings = Generation(max_new_tokens=12, rules=Rules(False, 0.9, 20), num_results=3, seed=7)
    expected = open_generator(models["writer"], **HERE).generate(["the river"], settings)[0]
    assert [row[0] for row in cells(page, "Continuations")] == [one.text for one in expected]
    page.get_by_label("Next token").select_option("greedy")
    page.get_by_role("button", name="Generate").click()
    page.wait_for_function("() => document.querySelectorAll('.continuation').length === 1")
    greedy = Generation(max_new_tokens=12, rules=Rules(greedy=True), seed=7)
    expected = open_generator(models["writer"], **HERE).generate(["the river"], greedy)[0]
    assert [row[0] for row in cells(page, "Continuations")] == [one.text for one in expected]
    assert opened.complaints == [] and opened.requests == []


def test_translations_of_each_line_with_runners_up(served, models, visit):
    opened = visit(served, "/translate")
    page = opened.page
    page.get_by_label("Texts, one per line").fill("the cat sat .\nrain fell")
    page.wait_for_function("() => document.querySelectorAll('p.reading.large').length === 2")
    settled(page)
    translator = open_translator(models["translator"], **HERE)
    expected = translator.translate(["the cat sat .", "rain fell"], TranslationSettings(beams=4, num_results=3))
    rows = cells(page, "All translations")
    assert [row[2] for row in rows] == [one.text for several in expected for one in several]
    assert [float(row[3]) for row in rows] == pytest.approx([one.score for own in expected for one in own], abs=1e-4)
    assert opened.complaints == [] and opened.requests == []


def aligned(models, name: str, text: str, rank: int) -> tuple[str, list[str], list[str], list[list[float]]]:
    """Return the translation of that rank in Python: text, source words, target words, weights."""
    translator = open_translator(models[name], **HERE)
    chosen = translator.translate([text], TranslationSettings(beams=4, num_results=3))[0][rank]
    (found,) = alignments(translator.model, translator.task, [(text, chosen.text)], translator.max_length)
    return chosen.text, list(found.source), list(found.target), found.weights.tolist()


@pytest.mark.parametrize(
    ("name", "source"), [("translator", "the decoder's layer 2 of 3"), ("recurrent", "attention to the source")]
)
def test_what_each_written_word_looked_at(served, models, visit, name, source):
    opened = visit(served, f"/translate#model={name}&text=rain%20fell%0Athe%20unbelievably%20long%20cat%20sat%20.")
    page = opened.page
    settled(page)
    for choice, text, rank in (("1.1", "rain fell", 0), ("2.3", "the unbelievably long cat sat .", 2)):
        page.get_by_label("Translation", exact=True).select_option(choice)
        settled(page)
        translation, read, written, weights = aligned(models, name, text, rank)
        unfold(page)
        table = page.locator('[role="region"][aria-label="Alignment as a table"]')
        assert table.locator("thead th").all_text_contents() == [*read, "sum"]
        rows = cells(page, "Alignment as a table")
        assert [row[0] for row in rows] == written
        assert [[float(cell) for cell in row[1:-1]] for row in rows] == [
            pytest.approx(row, abs=6e-3) for row in weights
        ]
        assert [row[-1] for row in rows] == ["1.00"] * len(written)
        drawn = page.locator("figure svg")
        assert drawn.locator("rect.cell").count() == len(read) * len(written)
        assert drawn.get_attribute("aria-label") == f"Attention of each word of “{translation}”"
    assert source in page.locator(".note").last.text_content()
    assert "looks=2.3" in page.evaluate("location.href")
    assert opened.complaints == [] and opened.requests == []


def test_an_alignment_is_saved_in_three_formats(served, models, visit):
    opened = visit(served, "/translate#model=translator&text=the%20cat%20sat%20.")
    page = opened.page
    settled(page)
    _, read, written, weights = aligned(models, "translator", "the cat sat .", 0)
    svg = saved(page, "Save the picture Attention of each target word as SVG").decode()
    assert svg.count("<rect") >= len(read) * len(written) and "var(" not in svg
    assert saved(page, "Save the picture Attention of each target word as PNG").startswith(b"\x89PNG")
    page.get_by_text("Weights as a table").click()
    table = list(csv.reader(saved(page, "Save the table Alignment as a table as CSV").decode("utf-8-sig").splitlines()))
    assert table[0] == ["", *read, "sum"]
    assert [[float(cell) for cell in row[1:-1]] for row in table[1:]] == [
        pytest.approx(row, abs=1e-12) for row in weights
    ]
    assert opened.complaints == [] and opened.requests == []


def test_a_network_without_attention_says_so(served, visit):
    opened = visit(served, "/translate#model=vector&text=the%20cat%20sat%20.")
    page = opened.page
    settled(page)
    assert page.get_by_text("This network has no attention, so there are no alignments").count() == 1
    assert not page.locator("figure").is_visible() and not page.get_by_label("Translation", exact=True).is_visible()
    assert len(cells(page, "All translations")) == 3
    page.get_by_label("Model").select_option("translator")
    settled(page)
    assert page.locator("figure svg rect.cell").count() > 0
    assert opened.complaints == [] and opened.requests == []
