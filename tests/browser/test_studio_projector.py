"""The page Projector in a real browser: places, neighbors and clusters as Python gives them, search and lasso."""

from __future__ import annotations

import csv
import io

import pytest

from browser.reading import all_barriers, cells, saved, settled
from maskwright.inference.cluster import cluster_vectors, nearest, project
from studio.serving import serving

TEXTS = b"text\tlabel\n<b>The river rose</b>\tweather\nSnow fell\tweather\nThe bank failed\tmoney\nShares fell\tmoney\n"


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("runs"), "english") as found:
        yield found


def opened_texts(served):
    """The sample, embedded by the page, or now."""
    opened = served.studio.texts.open(served.studio.models["english"], "", {})
    while opened.num_done < len(opened.rows):
        opened.embed_more(served.studio.models["english"])
    return opened


def test_a_point_its_neighbors_search_and_lasso(served, visit):
    opened = visit(served, "/projector")
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


def test_clusters_in_three_dimensions(served, visit):
    page = visit(served, "/projector#color=cluster&clusters=5&dimensions=3").page
    settled(page)
    texts = opened_texts(served)
    expected = cluster_vectors(texts.vectors, texts.texts, 5)
    assert [int(row[1]) for row in cells(page, "Clusters")] == [one.size for one in expected.clusters]
    map = list(csv.reader(io.StringIO(saved(page, "Save the map as CSV").decode())))
    assert map[0][:4] == ["line", "x", "y", "z"]
    assert [int(row[5]) for row in map[1:]] == (expected.groups + 1).tolist()
    page.get_by_role("button", name="Turn the map to the left").click()
    assert all_barriers(page) == []


def test_a_file_with_markup_and_a_bad_one(served, visit):
    opened = visit(served, "/projector")
    page = opened.page
    settled(page)
    page.get_by_label("File of texts").set_input_files([{"name": "a.tsv", "mimeType": "text/plain", "buffer": TEXTS}])
    page.wait_for_function("() => document.querySelector('p.reading').textContent.startsWith('4 texts')")
    page.get_by_label("Search texts").fill("river")
    settled(page)
    assert cells(page, "Selected texts")[0][1] == "<b>The river rose</b>"
    assert opened.complaints == []
    page.get_by_label("File of texts").set_input_files(
        [{"name": "b.txt", "mimeType": "text/plain", "buffer": b"one\n\ntwo\n"}]
    )
    page.wait_for_function("() => document.querySelector('.warning')")
    assert cells(page, "Bad rows")[0][2] == "the line is blank"
