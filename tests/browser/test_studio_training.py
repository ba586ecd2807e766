"""Runs and Train in a real browser: a file is checked, a training is watched to its end, runs are compared."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from browser.reading import all_barriers, cells, saved, settled
from maskwright.api import open_checkpoint, open_model, predictor_of
from maskwright.core.locking import lock
from maskwright.studio.run_folders import checkpoints_of
from maskwright.train.checkpoint import list_checkpoints
from maskwright.train.finetuning.finetune import finetune
from maskwright.train.run import RunFolder
from studio.models import tokenizer, write_masked
from studio.serving import serving
from train.runs import finetuning, labeled

TEXT = "the cat sat on the mat ."


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("studio")
    tokenizer().save(folder / "tok")
    for name, lr in (("slow", 1e-4), ("quick", 3e-3)):
        finetune(finetuning(folder, output=folder / "runs" / name, lr=lr, epochs=2, log_every=1))
    with serving(folder / "runs", write_masked(folder / "masked")) as found:
        yield found


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


def test_a_folder_that_cannot_be_read_is_a_row_with_its_error(served, visit):
    path = served.studio.runs / "cut"
    path.mkdir()
    try:
        (path / "config.toml").write_text('task = "classification"\n', encoding="utf-8")
        (path / "result.json").write_text('{"mean": {', encoding="utf-8")
        opened = visit(served, "/runs#runs=slow,cut")
        settled(opened.page)
        assert opened.page.locator("h2").first.text_content().startswith("3 runs in ")
        row = opened.page.locator("table tr", has_text="cut").first
        assert "unreadable" in row.text_content() and "result.json is not valid JSON" in row.text_content()
        assert opened.page.get_by_label("Compare cut").count() == 0
        assert opened.page.get_by_label("Compare slow").is_checked()
        assert opened.page.locator("figure svg path.line").count() == 1
        assert opened.complaints == []
    finally:
        shutil.rmtree(path)


def test_bad_rows_are_all_shown_and_can_be_left_out(served, visit, tmp_path):
    (tmp_path / "bad.tsv").write_text("text\tlabel\n" + "a cat\tanimal\n" * 20 + "\tx\n<b>\t\n", encoding="utf-8")
    page = visit(served, "/train").page
    page.get_by_label("Labeled file").set_input_files(tmp_path / "bad.tsv")
    page.wait_for_selector("p.warning")
    assert [row[0] for row in cells(page, "Bad rows")] == ["22", "23"]
    assert page.get_by_role("button", name="Start training").is_disabled()
    page.get_by_text("Columns and bad rows").click()
    page.get_by_label("Skip bad rows").check()
    page.wait_for_selector('[role="region"][aria-label="First rows"]')
    assert all_barriers(page) == []
    assert "20 rows, 2 bad rows skipped" in page.locator("p.reading").first.text_content()
    assert page.get_by_role("button", name="Start training").is_enabled()


def test_an_empty_file_removes_the_rows_of_the_one_before(served, visit, tmp_path):
    page = visit(served, "/train").page
    page.get_by_label("Labeled file").set_input_files(labeled(tmp_path / "rows.tsv", 120, 4))
    page.wait_for_selector('[role="region"][aria-label="First rows"]')
    assert page.get_by_role("button", name="Start training").is_enabled()
    (tmp_path / "empty.tsv").write_bytes(b"")
    page.get_by_label("Labeled file").set_input_files(tmp_path / "empty.tsv")
    page.wait_for_selector('[role="region"][aria-label="First rows"]', state="detached")
    assert page.get_by_role("button", name="Start training").is_disabled()


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


def test_a_run_shows_how_far_it_is(served, visit):
    line = "fine-tuning, seed 0: 1,200/4,800 steps, 2.5/s, 24:00 left; loss 0.5, 900 tokens/s"
    run = {"name": "far", "state": "running", "curves": {}, "main": None, "has_report": False, "has_model": False}
    opened = visit(served, "/train")
    page = opened.page
    page.route("**/api/train/watch", lambda route: route.fulfill(json={"run": {**run, "lines": ["x", line, "y"]}}))
    page.evaluate("location.hash = '#run=far'")
    page.wait_for_selector("progress:not([hidden])")
    assert page.locator("progress").evaluate("bar => bar.value") == pytest.approx(0.25)
    assert "1,200 of 4,800 steps, 2.5/s, 24:00 left" in page.locator("p.reading[role=status]").inner_text()


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
