"""The page Data set in a real browser, with a built-in model: slices, confusions, sorted rows, a corrected label."""

from __future__ import annotations

import pytest

from browser.reading import all_barriers, cells, saved, settled
from maskwright.studio.files import sample_for
from studio.serving import serving


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("runs"), "english-entailment") as found:
        yield found


def test_from_a_confusion_to_a_corrected_file(served, visit):
    opened = visit(served, "/data")
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

    page.get_by_role("link", name=f"Attention: line {line}").click()
    page.wait_for_url("**/attention#*")
    page.wait_for_selector("body[data-ready]")
    assert page.get_by_label("Text", exact=True).input_value() == by_loss[0]["text"]
    assert page.get_by_label("Second text").input_value() == by_loss[0]["pair"]
    assert opened.complaints == [] and opened.requests == []


def test_a_file_of_its_own_and_its_bad_rows(served, visit):
    page = visit(served, "/data#slice=length").page
    settled(page)
    assert cells(page, "Slices")[0][0].endswith("tokens")
    page.get_by_label("Slices by").select_option("cluster")
    settled(page)
    parts = cells(page, "Slices")
    assert sum(int(row[1]) for row in parts) == 24
    assert all(row[0].partition(":")[0].isdecimal() for row in parts)
    rows = (
        b"text\ttext_pair\tlabel\n<b>A cat sleeps.</b>\tAn animal sleeps.\tentailment\nA cat sleeps.\tIt runs.\t=1+1\n"
    )
    page.get_by_label("Labeled file").set_input_files([{"name": "a.tsv", "mimeType": "text/plain", "buffer": rows}])
    page.wait_for_function("() => document.querySelector('.warning')")
    assert cells(page, "Bad rows")[0][:2] == ["3", "label"]
    assert not page.locator('[aria-label="Rows"]').is_visible()
    assert all_barriers(page) == []
    page.get_by_text("Columns and bad rows").click()
    page.get_by_label("Skip bad rows").check()
    settled(page)
    page.get_by_label("Show", exact=True).select_option("all")
    settled(page)
    assert [row[0] for row in cells(page, "Slices")] == ["all rows"]
    assert "at least three distinct texts" in page.locator("p.note", has_text="Clustering").text_content()
    assert [row[1] for row in cells(page, "Rows")] == ["<b>A cat sleeps.</b>An animal sleeps."]
