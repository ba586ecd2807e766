"""Deep ways through the studio in a real browser: what Python gives is shown, and what a person does has its effect."""

import csv
import io
import os
from functools import partial
from pathlib import Path

import pytest

from browser.reading import all_barriers, cells, saved, settled
from maskwright.api import open_predictor
from maskwright.inference.cluster import nearest, project
from maskwright.studio.files import sample_for
from maskwright.train.finetuning.finetune import finetune
from maskwright.train.run import RunFolder
from studio.models import tokenizer, write_classifier, write_masked, write_tagger, write_translator, write_writer
from studio.serving import serving
from train.runs import finetuning, labeled

HERE = {"device": "cpu", "precision": "fp32"}


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
    assert "lr" in {row[0] for row in cells(page, "Settings")} and all_barriers(page) == []
    with opened.page.context.expect_page() as report:
        page.get_by_role("link", name="report").first.click()
    report.value.wait_for_load_state()
    assert report.value.url.endswith(("/report/slow", "/report/quick"))
    assert report.value.locator("h1").count() == 1 and opened.complaints == [] and opened.requests == []


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
    assert page.locator("figure svg path.line").count() >= 1 and all_barriers(page) == []
    with page.context.expect_page() as report:
        page.get_by_role("link", name="Open the report").click()
    report.value.wait_for_load_state()
    assert report.value.locator("h1").count() == 1
    page.get_by_role("button", name="Show the model in the studio").click()
    page.locator(".side nav a", has_text="Classify").wait_for(timeout=30_000)
    assert opened.complaints == [] and opened.requests == []
