"""Deep ways through the studio in a real browser: what Python gives is shown, and what a person does has its effect."""

from __future__ import annotations

import csv
import io
import os
import shutil
from functools import partial
from pathlib import Path
from urllib.parse import quote

import pytest

from browser.reading import all_barriers, barriers, cells, saved, settled, unfold
from maskwright.api import (
    open_checkpoint,
    open_generator,
    open_model,
    open_predictor,
    open_translator,
    predictor_of,
    similarity,
)
from maskwright.core.locking import lock
from maskwright.inference.cluster import nearest, project
from maskwright.inference.translate import TranslationSettings
from maskwright.inspect.structure import describe_weight, model_structure, weight_differences
from maskwright.studio.files import sample_for
from maskwright.studio.run_folders import checkpoints_of
from maskwright.tasks.translation import alignments
from maskwright.text.tokenizers.explain import format_subwords
from maskwright.train.checkpoint import list_checkpoints
from maskwright.train.finetuning.finetune import finetune
from maskwright.train.run import RunFolder
from studio.models import tokenizer, write_classifier, write_masked, write_tagger, write_translator, write_writer
from studio.serving import serving
from train.runs import finetuning, labeled

HERE = {"device": "cpu", "precision": "fp32"}
NEW = "dogs chase unbelievably naïve cats 🙂 ."
TEXT = "the cat sat on the mat ."
MASKED = "the cat [MASK] on the mat ."
SENTENCES = ["He sat on the bank of the river.", "The bank raised its rates.", "A 🙂 bank by the river bank."]


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    makers = {
        "masked": write_masked,
        "classes": write_classifier,
        "names": write_tagger,
        "writer": write_writer,
        "translator": partial(write_translator, num_decoder_layers=3),
    }
    return {name: make(folder / name) for name, make in makers.items()}


@pytest.fixture(scope="module")
def served(models, tmp_path_factory):
    folder = tmp_path_factory.mktemp("studio")
    tokenizer().save(folder / "tok")
    for name, lr in (("slow", 1e-4), ("quick", 3e-3)):
        finetune(finetuning(folder, output=folder / "runs" / name, lr=lr, epochs=2, log_every=1))
    with serving(folder / "runs", *models.values(), "english-spam", "english", "english-entailment") as found:
        yield found


def test_tokens_show_pieces_ids_places_and_both_notations(served, visit):
    opened = visit(served, "/tokens#model=masked")
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


def test_classes_and_their_probabilities(served, models, visit):
    opened = visit(served, "/classify#model=classes")
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
    opened = visit(served, "/tag#model=names")
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


def aligned(models, name: str, text: str, rank: int) -> tuple[str, list[str], list[str], list[list[float]]]:
    """Return the translation of that rank in Python: text, source words, target words, weights."""
    translator = open_translator(models[name], **HERE)
    chosen = translator.translate([text], TranslationSettings(beams=4, num_results=3))[0][rank]
    (found,) = alignments(translator.model, translator.task, [(text, chosen.text)], translator.max_length)
    return chosen.text, list(found.source), list(found.target), found.weights.tolist()


def test_what_each_written_word_looked_at(served, models, visit):
    opened = visit(served, "/translate#model=translator&text=rain%20fell%0Athe%20unbelievably%20long%20cat%20sat%20.")
    page = opened.page
    settled(page)
    for choice, text, rank in (("1.1", "rain fell", 0), ("2.3", "the unbelievably long cat sat .", 2)):
        page.get_by_label("Translation", exact=True).select_option(choice)
        settled(page)
        translation, read, written, weights = aligned(models, "translator", text, rank)
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
    assert "the decoder's layer 2 of 3" in page.locator(".note").last.text_content()
    assert "looks=2.3" in page.evaluate("location.href")
    assert opened.complaints == [] and opened.requests == []


def test_an_edited_word_is_compared(served, visit):
    opened = visit(served, f"/classify#model=classes&why=yes&text={quote(TEXT)}")
    page = opened.page
    settled(page)
    page.get_by_role("button", name="cat", exact=True).click()
    page.keyboard.type("dog")
    settled(page)
    other = TEXT.replace("cat", "dog")
    assert page.get_by_label("Edited copy", exact=True).input_value() == other
    own = [served.post("/api/classify", {"model": "classes", "text": text}).json()["answer"] for text in (TEXT, other)]
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


def test_a_word_across_sentences(served, models, visit):
    opened = visit(served, "/meaning#model=masked")
    page = opened.page
    page.get_by_label("Sentences, one per line").fill("\n".join(SENTENCES))
    settled(page)
    expected = similarity(models["masked"], SENTENCES, word="bank", **HERE)
    names = [place.name for place in expected.places]
    rows = cells(page, "Every pair")
    shown = {(row[0], row[1]): float(row[2]) for row in rows}
    own = {(names[i], names[j]): expected.matrix[i, j] for i in range(len(names)) for j in range(i + 1, len(names))}
    assert shown == pytest.approx(own, abs=1e-4)
    assert {float(row[3]) for row in rows} == {1.0}  # without context a word is one vector
    assert "Most similar: " in page.locator("p.reading").first.text_content()
    assert page.locator("figure svg circle").count() == len(names)
    assert opened.complaints == [] and opened.requests == []


def test_from_a_block_to_a_weight_and_its_change(served, visit):
    model = served.studio.models["english-spam"].model
    structure = model_structure(model, "The cat sat.")
    opened = visit(served, "/model#model=english-spam&text=The%20cat%20sat.")
    page = opened.page
    settled(page)
    uses = [f" (used {block.calls} times)" if block.calls > 1 else "" for block in structure.blocks]
    titles = [block.title + used for block, used in zip(structure.blocks, uses, strict=True)]
    assert page.locator(".flow .block .title").all_text_contents() == titles
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


def test_from_a_confusion_to_a_corrected_file(served, visit):
    opened = visit(served, "/data#model=english-entailment")
    page = opened.page
    settled(page)
    scored = served.post("/api/data", {"model": "english-entailment"}).json()["rows"]
    wrong = [row for row in scored if not row["right"]]
    share = f"{len(scored) - len(wrong)} of {len(scored)} rows are right ({1 - len(wrong) / len(scored):.1%})."
    assert share in page.locator("p.reading").first.text_content()
    by_loss = sorted(wrong, key=lambda row: -row["loss"])
    assert [int(row[0]) for row in cells(page, "Rows")] == [row["line"] for row in by_loss]
    page.get_by_role("button", name="tokens", exact=True).click()
    settled(page)
    assert [int(row[6]) for row in cells(page, "Rows")] == sorted((row["tokens"] for row in wrong), reverse=True)
    assert page.locator("th[aria-sort=descending]").text_content() == "tokens"

    gold, predicted = by_loss[0]["pairs"][0]
    page.get_by_role("button", name=f"{gold} → {predicted}", exact=True).click()
    settled(page)
    same = {row["line"] for row in wrong if row["pairs"][0] == [gold, predicted]}
    assert {int(row[0]) for row in cells(page, "Rows")} == same
    line = by_loss[0]["line"]
    page.get_by_role("button", name=f"Correct the label {gold} of line {line}", exact=True).click()
    assert all_barriers(page) == []
    page.get_by_label(f"New label of line {line}").select_option(predicted)
    settled(page)
    assert f"{len(scored) - len(wrong) + 1} of {len(scored)} rows" in page.locator("p.reading").first.text_content()
    page.reload()
    page.wait_for_selector("body[data-ready]")
    settled(page)
    before = sample_for(served.studio.models["english-entailment"]).read_bytes().split(b"\n")
    after = saved(page, "Save the file with 1 corrected label").split(b"\n")
    assert [number for number, (one, other) in enumerate(zip(before, after, strict=True), 1) if one != other] == [line]
    assert after[line - 1].endswith(predicted.encode())

    page.get_by_role("link", name=f"Inspect: line {line}").click()
    page.wait_for_url("**/inspect#*")
    page.wait_for_selector("body[data-ready]")
    assert page.get_by_label("Text", exact=True).input_value() == by_loss[0]["text"]
    assert page.get_by_label("Second text").input_value() == by_loss[0]["pair"]
    assert opened.complaints == [] and opened.requests == []


def opened_texts(served):
    """The sample, embedded by the page, or now."""
    opened = served.studio.texts.open(served.studio.models["english"], "", {})
    while opened.num_done < len(opened.rows):
        opened.embed_more(served.studio.models["english"])
    return opened


def test_a_point_its_neighbors_search_and_lasso(served, visit):
    opened = visit(served, "/projector#model=english")
    page = opened.page
    settled(page)
    texts = opened_texts(served)
    labels = sorted({row.label for row in texts.rows})
    assert page.locator("p.reading").first.text_content() == f"{len(texts.rows)} texts with {len(labels)} labels."
    map = list(csv.reader(io.StringIO(saved(page, "Save the map as CSV").decode())))
    assert map[0] == ["line", "x", "y", "label", "cluster", "text"]
    places = project(texts.vectors, "pca", 2).places
    assert [[float(row[1]), float(row[2])] for row in map[1:]] == [
        pytest.approx(own, abs=1e-5) for own in places.tolist()
    ]

    at = page.evaluate("document.querySelector('.cloud-box').placeOf(7)")
    page.locator("canvas").click(position={"x": at[0], "y": at[1]})
    settled(page)
    expected = nearest(texts.vectors, 7, 10)
    rows = cells(page, "Nearest texts")
    assert [row[2] for row in rows] == [texts.texts[index] for index in (7, *(index for index, _ in expected))]
    assert [float(row[0]) for row in rows[1:]] == pytest.approx([cosine for _, cosine in expected], abs=1e-3)

    page.get_by_label("Search texts").fill("BANK")
    settled(page)
    found = [text for text in texts.texts if "bank" in text.lower()]
    assert [row[1] for row in cells(page, "Selected texts")] == found and len(found) > 1
    page.get_by_label("Search texts").fill("")
    page.get_by_role("button", name="Lasso", exact=True).click()
    box = page.locator("canvas").bounding_box()
    page.mouse.move(box["x"] + 2, box["y"] + 2)
    page.mouse.down()
    for x, y in ((box["width"] / 2, 2), (box["width"] / 2, box["height"] - 2), (2, box["height"] - 2)):
        page.mouse.move(box["x"] + x, box["y"] + y)
    page.mouse.up()
    settled(page)
    places = page.evaluate(
        f"Array.from({{length: {len(texts.rows)}}}, (_, i) => document.querySelector('.cloud-box').placeOf(i)[0])"
    )
    left = [text for text, x in zip(texts.texts, places, strict=True) if x < box["width"] / 2]
    assert all_barriers(page) == []
    lasso = list(csv.reader(io.StringIO(saved(page, "Save the table Selected texts as CSV").decode())))
    assert [row[1] for row in lasso[1:]] == left and 0 < len(left) < len(texts.rows)
    assert opened.complaints == [] and opened.requests == []


def ready(page):
    """Wait until the views are drawn for the last request."""
    settled(page)
    page.wait_for_selector("#panel")


@pytest.mark.parametrize(
    ("name", "width", "scheme"),
    [("masked", 375, "dark"), ("classes", 1400, "light")],
)
def test_every_view_of_the_file_is_a_view_of_the_page(served, visit, name, width, scheme):
    opened = visit(served, f"/inspect#model={name}&text={quote(MASKED)}", width=width, scheme=scheme)
    page = opened.page
    ready(page)
    tabs = page.get_by_role("tab").all_text_contents()
    assert tabs[:8] == ["Overview", "Lines", "Matrix", "Neurons", "Steps", "Heads", "Flow", "Layers"]
    assert tabs[8:] == {"masked": ["Predictions", "Attributions"], "classes": ["Attributions"]}.get(
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


def test_two_texts_and_two_models_are_compared(served, visit):
    opened = visit(served, f"/inspect#model=masked&text={quote(MASKED)}&against={quote('the dog [MASK] on the mat .')}")
    page = opened.page
    ready(page)
    assert page.get_by_role("tab", selected=True).inner_text() == "Lines"
    assert page.locator("#panel h2").all_text_contents() == [MASKED, "the dog [MASK] on the mat ."]
    page.get_by_label("Other text").fill("")
    page.get_by_label("Other model").select_option("classes")
    page.get_by_role("tab", name="Heads").click()
    ready(page)
    assert "Similar layers" in page.locator("#panel").inner_text()
    page.get_by_label("Other text").fill("the dog")
    settled(page)
    assert "not with both" in page.locator("#status").text_content()
    assert [one for one in opened.complaints if "422" not in one] == []


def test_runs_are_listed_and_compared(served, visit):
    opened = visit(served, "/runs#runs=slow,quick")
    page = opened.page
    settled(page)
    assert page.locator("table input:checked").count() == 2
    assert {row[0]: row[1:] for row in cells(page, "Settings that differ")} == {"lr": ["0.0001", "0.003"]}
    results = {row[0]: row[1:] for row in cells(page, "Results")}
    for place, name in enumerate(("slow", "quick")):
        found = RunFolder(served.studio.runs / name, {}).result
        assert float(results["mean.accuracy"][place]) == pytest.approx(found["mean"]["accuracy"], abs=1e-4)
    assert page.locator("figure svg path.line").count() == 2
    page.get_by_label("Curve", exact=True).select_option("eval_accuracy")
    settled(page)
    assert (
        "measure=eval_accuracy" in page.evaluate("location.href") and page.locator("figure svg path.line").count() == 2
    )
    if folder := os.environ.get("MASKWRIGHT_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / "runs-compared.png", full_page=True)
    listed = saved(page, "Save the table All runs as CSV").decode().splitlines()
    assert sorted(line.split(",")[0] for line in listed[1:]) == ["quick", "slow"]
    page.reload()
    page.wait_for_selector("body[data-ready]")
    settled(page)
    assert page.get_by_label("Curve", exact=True).input_value() == "eval_accuracy"
    page.get_by_label("Compare quick").uncheck()
    page.get_by_label("Compare slow").uncheck()
    settled(page)
    assert "Select a run above" in page.locator("section").nth(1).inner_text()
    page.get_by_label("Compare quick").check()
    settled(page)
    assert page.locator("figure svg path.line").count() == 1
    assert "lr" in {row[0] for row in cells(page, "Settings")}
    assert all_barriers(page) == []
    with opened.page.context.expect_page() as report:
        page.get_by_role("link", name="report").first.click()
    report.value.wait_for_load_state()
    assert report.value.url.endswith(("/report/slow", "/report/quick"))
    assert report.value.locator("h1").count() == 1
    assert opened.complaints == [] and opened.requests == []


def test_two_checkpoints_of_a_run_are_compared(served, visit):
    opened = visit(served, "/runs#runs=quick")
    page = opened.page
    settled(page)
    steps = [step for step, _ in list_checkpoints(checkpoints_of(served.studio.runs / "quick"))]
    names = page.get_by_label("Model", exact=True).locator("option").evaluate_all("all => all.map((one) => one.value)")
    assert steps and names == [*(f"quick@{step}" for step in steps), "quick"]
    page.get_by_role("button", name="Compare answers").click()
    page.wait_for_url("**/classify*")
    page.wait_for_selector("body[data-ready]")
    settled(page)
    assert page.get_by_label("Model", exact=True).input_value() == f"quick@{steps[0]}"
    assert "beside=quick" in page.evaluate("location.hash")
    shares = [
        predictor_of(model, served.studio.runs / "quick" / "model").predict([TEXT])[0]["probabilities"]
        for model in (
            open_checkpoint(checkpoints_of(served.studio.runs / "quick") / f"step-{steps[0]}", device="cpu"),
            open_model(served.studio.runs / "quick" / "model", (), "cpu"),
        )
    ]
    page.get_by_label("Text", exact=True).fill(TEXT)
    settled(page)
    for label, first, second, _ in cells(page, "Both answers"):
        assert [float(first), float(second)] == pytest.approx([one[label] for one in shares], abs=2e-4)
    page.goto(f"{served.origin}/inspect#model=quick@{steps[0]}&beside=quick&text=the%20cat%20sat")
    page.wait_for_selector("#panel.overview .moves .square")
    refused = served.post("/api/train/open", {"name": "quick", "step": 999})
    assert refused.status == 404 and "no checkpoint of step 999" in refused.json()["error"]
    assert opened.complaints == []


def test_a_run_of_another_process_is_followed(served, visit):
    run = served.studio.runs / "now"
    run.mkdir()
    try:
        (run / "config.toml").write_text('objective = "mlm"\nsteps = 500\n', encoding="utf-8")
        (run / "run.json").write_text('{"started": "2099-01-01"}', encoding="utf-8")
        log = RunFolder(run, {})
        for step in range(1, 101):
            log.log({"step": step, "loss": 100.0 / step})
        with lock(run):
            opened = visit(served, "/runs")
            page = opened.page
            settled(page)
            state = page.locator("tr", has_text="now").locator("td").nth(2)
            assert state.text_content() == "training, step 100 of 500"
            assert page.locator("table input:checked").evaluate_all("all => all.map((one) => one.value)") == ["now"]
            page.get_by_label("Smooth long curves").uncheck()
            page.get_by_label("Logarithmic axis").check()
            settled(page)
            box = page.locator("figure svg").bounding_box()
            page.mouse.move(box["x"] + box["width"] - 15, box["y"] + 80)
            told = page.locator(".pointed text")
            assert told.is_visible() and told.text_content() == "step 1001"
            assert "log=yes" in page.evaluate("location.hash")
            log.log({"step": 250, "loss": 0.5})
            page.wait_for_function("() => document.querySelector('tbody').textContent.includes('step 250 of 500')")
            settled(page)
            assert "ends at 0.5000" in page.locator("figure svg").get_attribute("aria-label")
        assert all_barriers(page) == []
        assert opened.complaints == []
    finally:
        shutil.rmtree(run)


def test_an_error_of_a_setting_stands_at_its_field(served, visit, tmp_path):
    page = visit(served, "/train").page
    page.get_by_label("Labeled file").set_input_files(labeled(tmp_path / "rows.tsv", 120, 4))
    page.wait_for_selector('[role="region"][aria-label="First rows"]')
    page.get_by_label("Run name").fill("refused")
    field = page.get_by_label("Batch size in examples")
    field.fill("0")
    page.get_by_role("button", name="Start training").click()
    page.wait_for_selector('[aria-invalid="true"]')
    message = field.locator("..").locator(".warning").inner_text()
    assert message.startswith("Batch size") and "batch_size" not in page.locator("main").inner_text()
    assert field.evaluate("control => control === document.activeElement")
    assert not (served.studio.runs / "refused").exists()


@pytest.mark.slow
def test_a_training_is_begun_watched_and_opened(served, visit, tmp_path):
    path = labeled(tmp_path / "rows.tsv", 120, 4)
    opened = visit(served, "/train")
    page = opened.page
    page.get_by_label("Labeled file").set_input_files(path)
    page.wait_for_selector('[role="region"][aria-label="First rows"]')
    page.get_by_label("Run name").fill("mine")
    page.get_by_label("Batch size in examples").fill("8")
    page.get_by_label("Maximum sequence length in tokens").fill("32")
    page.get_by_role("button", name="Start training").click()
    page.get_by_role("button", name="Stop and save").wait_for(timeout=60_000)
    page.get_by_role("button", name="Show the model in the studio").wait_for(timeout=180_000)
    if folder := os.environ.get("MASKWRIGHT_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / "train-finished.png", full_page=True)
    assert "mine is finished" in page.locator("p.reading[role=status]").text_content()
    assert page.locator("figure svg path.line").count() >= 1
    assert all_barriers(page) == []
    with page.context.expect_page() as report:
        page.get_by_role("link", name="Open the report").click()
    report.value.wait_for_load_state()
    assert report.value.locator("h1").count() == 1
    page.get_by_role("button", name="Show the model in the studio").click()
    page.locator(".side nav a", has_text="Classify").wait_for(timeout=30_000)
    assert opened.complaints == [] and opened.requests == []


def test_a_slider_changes_the_lesson_and_its_address_opens_the_same(served, visit):
    opened = visit(served, "/lessons#lesson=distillation&set.temperature=2")
    page = opened.page
    frame = page.frame_locator("iframe.lesson")
    frame.locator("h2", has_text="Teacher distribution at temperature 2").wait_for(timeout=30_000)
    page.get_by_label("Temperature, as a slider").press("ArrowRight")
    frame.locator("h2", has_text="Teacher distribution at temperature 2.5").wait_for(timeout=30_000)
    page.locator("p.reading", has_text="The slide's numbers do not apply").wait_for()
    assert page.get_by_label("Temperature", exact=True).input_value() == "2.5"
    page.get_by_label("Temperature", exact=True).fill("99")
    page.locator("#status", has_text="temperature is 99; pass a number from 0.5 to 20.").wait_for()
    page.get_by_label("Temperature", exact=True).fill("3")
    frame.locator("h2", has_text="Teacher distribution at temperature 3").wait_for(timeout=30_000)
    settled(page)
    assert barriers(page) == []
    assert opened.ask("document.documentElement.scrollWidth") <= 1400
    another = visit(served, "/lessons" + page.evaluate("location.hash")).page
    another.frame_locator("iframe.lesson").locator("h2", has_text="at temperature 3").wait_for(timeout=30_000)
    assert another.get_by_label("Temperature, as a slider").input_value() == "3"
    assert [one for one in opened.complaints if "status of 422" not in one] == []


def test_teachers_mode_shows_a_lesson_step_by_step(served, visit):
    opened = visit(served, "/lessons#lesson=distillation")
    page = opened.page
    page.frame_locator("iframe.lesson").locator("h1").wait_for(timeout=30_000)
    page.get_by_role("button", name="Teacher's mode").click()
    inside = page.frame_locator(".stage iframe")
    inside.locator("h1").wait_for(timeout=30_000)
    place = page.locator(".stage .bar [role=status]")
    place.get_by_text("1 of 7", exact=True).wait_for()
    page.keyboard.press("ArrowRight")
    inside.locator("h2", has_text="Teacher distribution at temperature 4").wait_for()
    inside.locator("h1").wait_for(state="hidden")
    page.get_by_label("Temperature, as a slider").press("ArrowRight")  # changes the value, not the step
    inside.locator('td:text-is("Temperature")').wait_for(state="attached", timeout=30_000)
    inside.locator("h1").wait_for(state="hidden")
    page.get_by_role("button", name="Use the slide's values").click()
    inside.locator("h2", has_text="Teacher distribution at temperature 4").wait_for(timeout=30_000)
    assert barriers(page) == []
    assert opened.ask("document.querySelector('.stage').scrollWidth") <= 1400
    page.get_by_role("button", name="Next").focus()
    for _ in range(3):
        page.keyboard.press("PageDown")
    inside.locator("details.folded").wait_for()
    place.get_by_text("5 of 7", exact=True).wait_for()
    page.keyboard.press("ArrowRight")
    inside.locator("details.folded[open]").wait_for()
    assert page.evaluate("location.hash") == "#lesson=distillation&step=5"
    inside.locator("body").press("End")  # keys reach it from the frame, too
    place.get_by_text("7 of 7", exact=True).wait_for()
    inside.locator("body").press("Escape")
    page.locator("dialog.stage").wait_for(state="hidden")
    page.wait_for_function("() => location.hash === '#lesson=distillation'")
    page.locator(".result .instruments").wait_for()
    assert page.evaluate("document.activeElement.textContent") == "Teacher's mode"
    shared = visit(served, "/lessons#lesson=distillation&step=4").page
    shared.locator(".stage .bar [role=status]").get_by_text("5 of 7", exact=True).wait_for(timeout=30_000)
    assert opened.complaints == [] and opened.requests == []


def test_pictures_and_tables_of_a_lesson_are_saved(served, visit):
    opened = visit(served, "/lessons#lesson=big-bird")
    page = opened.page
    page.frame_locator("iframe.lesson").locator("svg[role=img]").first.wait_for(timeout=30_000)
    page.get_by_text("Save its pictures and tables").click()
    pictures = page.locator(".kept button", has_text="SVG")
    assert pictures.count() == page.frames[-1].locator("svg[role=img]").count() > 0
    assert page.locator(".kept button", has_text="CSV").count() == page.frames[-1].locator("table, ul.bars").count()
    name = pictures.first.get_attribute("aria-label")
    picture = saved(page, name).decode()
    assert picture.startswith("<svg") and 'width="' in picture and "var(" not in picture
    assert saved(page, name.replace("as SVG", "as PNG")).startswith(b"\x89PNG")
    numbers = saved(page, "Save the table The lesson's numbers as CSV").decode().splitlines()
    assert numbers[0].split(",")[1:3] == ["the slide", "computed"]
    assert len(numbers) == 1 + len(served.studio.lessons["/lesson/big-bird"].checks)
    assert opened.complaints == [] and opened.requests == []
