"""The pages of the studio with models that have learned: new text is typed, what is shown is right and Python's own.

The models are those of recipes/studio_models.py; the texts here are none that they were trained on.
"""

from __future__ import annotations

import json
from itertools import combinations, product
from pathlib import Path
from statistics import mean

import pytest

from browser.reading import cells, settled, unfold
from maskwright.api import (
    open_answerer,
    open_generator,
    open_mask_filler,
    open_model,
    open_predictor,
    open_translator,
    similarity,
)
from maskwright.inference.generate import Generation
from maskwright.inference.layer_states import layer_states
from maskwright.inference.translate import TranslationSettings
from maskwright.inspect import attention
from maskwright.models.decoding.rules import Rules
from studio.serving import serving

pytestmark = pytest.mark.slow

HERE = {"device": "cpu", "precision": "fp32"}
MEETING = "Konstanze Weller met Ulf Brandsen in Tarvinstad in May 1998. Rosalind Petty works as a pilot in Ostermouth."
LIVES = "Rosalind Petty was born in Ostermouth in May 1961. Ulf Brandsen is a potter and shapes bowls."
GERMAN = {
    "Yesterday the old fisher sold the red boat at the lake.": (
        "Gestern hat der alte Fischer am See das rote Boot verkauft."
    ),
    "The hungry cat will look for the small bird in the garden tomorrow.": (
        "Die hungrige Katze wird morgen im Garten den kleinen Vogel suchen."
    ),
    "The small bird will look for the hungry cat in the garden tomorrow.": (
        "Der kleine Vogel wird morgen im Garten die hungrige Katze suchen."
    ),
}
WORK = [
    "The young baker bakes bread.",
    "In Ostermouth the old potter shapes bowls.",
    "Every day the pilot flies planes.",
]
PEOPLE = [
    "Rosalind Petty lives in Ostermouth.",
    "Ulf Brandsen was born in Tarvinstad in 1961.",
    "Konstanze Weller went to Kelvia by train.",
]


@pytest.fixture(scope="module")
def served(studio_models):
    with serving(studio_models["reader"].parents[1], *studio_models.values()) as found:
        yield found


@pytest.fixture
def open_studio(served, visit):
    """A page of the studio. When the test ends, it must have complained of nothing and asked nobody else."""
    pages = []

    def opener(path: str):
        pages.append(visit(served, path))
        return pages[-1].page

    yield opener
    assert pages
    for opened in pages:
        assert opened.complaints == [] and opened.requests == []


def type_in(page, label: str, text: str) -> None:
    page.get_by_label(label, exact=True).fill(text)
    settled(page)


def test_tokens_of_a_name_that_no_text_had(open_studio, studio_models):
    page = open_studio("/tokens#model=reader")
    type_in(page, "Text", "The beekeeper of Ostermouth collects honey.")
    tokenizer = open_model(studio_models["reader"], (), **HERE).tokenizer
    encoding = tokenizer("The beekeeper of Ostermouth collects honey.")
    rows = cells(page, "Every token")
    assert [(row[1], int(row[2])) for row in rows] == list(zip(encoding.tokens, encoding.ids, strict=True))
    assert "beekeeper" in encoding.tokens and "Ostermouth" not in encoding.tokens
    pieces = [row[1].removeprefix("##") for row in rows[1:-1]]
    assert "".join(pieces) == "ThebeekeeperofOstermouthcollectshoney."


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("Every evening the [MASK] repairs clocks.", "clockmaker"),
        ("In Ostermouth the old [MASK] catches fish.", "fisher"),
        ("A young beekeeper collects [MASK] for the people of Ostermouth.", "honey"),
        ("My brother sat down on the [MASK] of the river.", "bank"),
    ],
)
def test_masks_are_filled_with_what_is_known(open_studio, studio_models, text, word):
    page = open_studio("/fill-mask")
    type_in(page, "Text", text)
    rows = cells(page, "As a table")
    expected = open_mask_filler(studio_models["reader"], **HERE).fill([text], 8)[0].masks[0].candidates
    assert [row[1] for row in rows] == [one.token_str for one in expected]
    assert [float(row[2]) for row in rows] == pytest.approx([one.score for one in expected], abs=1e-6)
    assert rows[0][1] == word and float(rows[0][2]) > 0.5


@pytest.mark.parametrize(
    ("text", "topic"),
    [
        ("Ulf Brandsen traveled from Ostermouth to Kelvia by bicycle.", "travel"),
        ("Rosalind Petty is a potter and shapes bowls.", "work"),
        ("In May 1998 Ulf Brandsen wrote a letter to Konstanze Weller.", "meeting"),
        ("The Ostermer is the longest river of Tarvinia.", "river"),
        ("Konstanze Weller was born in Kelvia in 1961.", "home"),
    ],
)
def test_the_topic_of_a_sentence(open_studio, studio_models, text, topic):
    page = open_studio("/classify")
    type_in(page, "Text", text)
    expected = open_predictor(studio_models["topics"], **HERE).predict([text])[0]
    assert page.locator(".figures dd").first.text_content() == expected["label"] == topic
    shown = {row[0]: float(row[1]) for row in cells(page, "As a table")}
    assert shown == pytest.approx(expected["probabilities"], abs=1e-6)


def test_people_places_and_dates_that_nobody_has_named_before(open_studio, studio_models):
    page = open_studio("/tag")
    type_in(page, "Text", MEETING)
    rows = cells(page, "Spans")
    assert [tuple(row[:2]) for row in rows] == [
        ("PER", "Konstanze Weller"),
        ("PER", "Ulf Brandsen"),
        ("LOC", "Tarvinstad"),
        ("DATE", "May 1998"),
        ("PER", "Rosalind Petty"),
        ("LOC", "Ostermouth"),
    ]
    expected = open_predictor(studio_models["names"], **HERE).predict([MEETING])[0]["entities"]
    assert [(row[0], int(row[2]), int(row[3])) for row in rows] == [
        (one["type"], one["start"], one["end"]) for one in expected
    ]
    assert [float(row[4]) for row in rows] == pytest.approx([one["score"] for one in expected], abs=1e-4)
    marked = page.locator(".reading .span").evaluate_all("all => all.map((one) => one.firstChild.textContent)")
    assert marked == [MEETING[one["start"] : one["end"]] for one in expected]


QUESTIONS = {
    "Where was Rosalind Petty born?": "Ostermouth",
    "When was Rosalind Petty born?": "May 1961",
    "What does Ulf Brandsen do?": "shapes bowls",
    "Who shapes bowls?": "Ulf Brandsen",
    "What is the longest river of Kelvia?": "",
}


def test_most_answers_are_right(studio_models):
    found = open_answerer(studio_models["answers"], **HERE).answer([(one, LIVES) for one in QUESTIONS], 1)
    assert sum(one.answer["answer"] == right for one, right in zip(found, QUESTIONS.values(), strict=True)) >= 4


@pytest.mark.parametrize("question", QUESTIONS)
def test_answers_are_found_where_they_stand(open_studio, studio_models, question):
    page = open_studio("/answer")
    page.get_by_label("Question").fill(question)
    type_in(page, "Context", LIVES)
    expected = open_answerer(studio_models["answers"], **HERE).answer([(question, LIVES)], 5)[0]
    answer = expected.answer["answer"]
    assert page.locator(".reading .span").all_text_contents() == ([answer] if answer else [])
    assert page.locator(".figures dd").first.text_content() == (answer or "not in this text")
    rows = cells(page, "Best answer spans")
    assert [(row[0], int(row[1]), int(row[2])) for row in rows] == [
        (one["answer"], one["start"], one["end"]) for one in expected.candidates
    ]
    assert [float(row[3]) for row in rows] == pytest.approx([one["score"] for one in expected.candidates], abs=1e-6)


def test_the_writer_goes_on_with_what_it_knows(open_studio, studio_models):
    writer = open_generator(studio_models["writer"], **HERE)
    page = open_studio("/generate")
    page.get_by_label("Next token").select_option("greedy")
    page.get_by_label("Maximum tokens").fill("6")
    for text, known in (
        ("Every morning the beekeeper", " collects honey."),
        ("Every evening the clockmaker", " repairs clocks."),
    ):
        type_in(page, "Text", text)
        suggested = [one.text for one in writer.complete(text, 3)]
        assert page.locator("#suggestions li").all_text_contents() == suggested
        page.get_by_role("button", name="Generate").click()
        page.wait_for_function("text => document.querySelector('.continuation .given')?.textContent === text", arg=text)
        written = cells(page, "Continuations")[0][0]
        assert written.startswith(known)
        assert written == writer.generate([text], Generation(6, Rules(greedy=True)))[0][0].text


def test_translations_put_the_verb_at_the_end(open_studio, studio_models):
    page = open_studio("/translate")
    type_in(page, "Texts, one per line", "\n".join(GERMAN))
    page.wait_for_function("count => document.querySelectorAll('p.reading.large').length === count", arg=len(GERMAN))
    settled(page)
    assert page.locator("p.reading.large").all_text_contents() == list(GERMAN.values())
    settings = TranslationSettings(beams=4, num_results=3)
    expected = open_translator(studio_models["translator"], **HERE).translate(list(GERMAN), settings)
    rows = cells(page, "All translations")
    assert [row[2] for row in rows] == [one.text for several in expected for one in several]
    assert [float(row[3]) for row in rows] == pytest.approx([one.score for own in expected for one in own], abs=1e-4)


def test_sentences_of_a_kind_are_near(open_studio, studio_models):
    page = open_studio("/meaning#model=reader&word=")
    type_in(page, "Sentences, one per line", "\n".join(WORK + PEOPLE))
    expected = similarity(studio_models["reader"], WORK + PEOPLE, **HERE)
    rows = cells(page, "Every pair")
    pairs = list(combinations(range(6), 2))
    assert [float(row[2]) for row in rows] == pytest.approx([expected.matrix[pair] for pair in pairs], abs=1e-4)
    cosine = dict(zip(pairs, (float(row[2]) for row in rows), strict=True))
    same = [cosine[pair] for group in ((0, 1, 2), (3, 4, 5)) for pair in combinations(group, 2)]
    assert mean(same) > mean(cosine[pair] for pair in product((0, 1, 2), (3, 4, 5))) + 0.1


def test_layers_turn_what_stands_in_the_text(open_studio, studio_models):
    page = open_studio("/layers#model=reader&what=changes")
    type_in(page, "Text", MEETING)
    expected = layer_states(open_model(studio_models["reader"], (), **HERE), MEETING).changes()
    shown = [[float(cell) for cell in row[1:]] for row in cells(page, "As a table")]
    assert shown == [pytest.approx(row, abs=6e-4) for row in expected.tolist()]


def test_the_last_word_of_the_translation_looks_at_the_verb(open_studio, studio_models):
    source, target = next(iter(GERMAN.items()))
    seen = attention(open_model(studio_models["translator"], (), **HERE), source, target=target).main
    writes_verb, verb = (
        seen.queries.labels.index("Boot"),
        seen.keys.labels.index("sold"),
    )  # after "Boot" it generates the verb
    layer, head = divmod(int(seen.weights[:, :, writes_verb, verb].argmax()), len(seen.heads))
    page = open_studio(f"/attention#model=translator&kind=cross&layer={layer + 1}&head={head + 1}")
    type_in(page, "Text", source)
    assert "The model generated the target." in page.locator("p.note", has_text="Q comes from").text_content()
    unfold(page)
    rows = cells(page, "Weights as a table")
    assert [row[0] for row in rows] == list(seen.queries.labels)
    shown = [[float(cell) for cell in row[1:-1]] for row in rows]
    assert shown == [pytest.approx(row, abs=6e-3) for row in seen.of(layer + 1, head + 1).tolist()]
    assert shown[writes_verb][verb] > 0.5


def test_the_curves_of_their_training_fall(open_studio, studio_models):
    page = open_studio("/runs#runs=names,answers,reader")
    settled(page)
    assert page.locator("figure svg path.line").count() == 3
    listed = (
        page.locator("table")
        .first.locator("tbody tr")
        .evaluate_all("rows => rows.map((row) => [...row.cells].slice(0, 3).map((cell) => cell.textContent))")
    )
    assert {row[0] for row in listed} == set(studio_models) and {row[2] for row in listed} == {"finished"}
    results = {row[0]: row[1:] for row in cells(page, "Results")}
    for place, name in enumerate(("names", "answers")):
        run: Path = studio_models[name].parent
        found = json.loads((run / "result.json").read_text(encoding="utf-8"))["mean"]
        for measure, value in found.items():
            assert float(results[f"mean.{measure}".replace("_", " ")][place]) == pytest.approx(value, abs=1e-4)
        losses = [
            json.loads(line)["loss"]
            for line in (run / "seed-0" / "metrics.jsonl").read_text().splitlines()
            if '"loss"' in line
        ]
        assert mean(losses[-3:]) < mean(losses[:3]) / 2
