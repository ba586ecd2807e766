"""Reports: self-contained pages that show what they were given, and text stays text."""

import json
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import maskwright.report as kinds
from maskwright.core.errors import ConfigError, MissingExtraError, StorageError
from maskwright.report import (
    Bars,
    Block,
    Collapsible,
    ColoredText,
    Comparison,
    Confusion,
    Facts,
    Grid,
    KeyFigures,
    MaskExamples,
    NextSteps,
    Paragraph,
    Report,
    RunMetadata,
    Score,
    Section,
    SourceCode,
    System,
    Table,
    Tokens,
    Weights,
    WorstErrors,
    charts,
    numbers,
    pictures,
    render,
    write_report,
)
from maskwright.report.charts import Chart, Curves, Flow, Histogram, Scatter, Series, thinned
from maskwright.report.numbers import clean, element, escape
from maskwright.report.page import digest
from report.html_reading import Node, read_html
from report.sample import blocks, whole

EMPTY = [
    Bars([]), Comparison([]), Confusion(["a"], [[0]]), Curves([Chart("nothing", [Series("none", [], [])])]), Facts({}),
    ColoredText([]), Histogram([0, 1], [0]), KeyFigures([]), MaskExamples([]), NextSteps([]),
    Scatter([], [], [], [], "none"), Paragraph(""), Table(["a"], []), Weights(), RunMetadata(), WorstErrors([]),
    Grid([], [], [], "none"), Flow([], [], "none"), Tokens([]), SourceCode([]), Collapsible("why", "because", []),
    Section("empty", [Paragraph("")]),
]  # fmt: skip


def main_of(*blocks: Block) -> Node:
    return read_html(render(Report("title", "headline", blocks=blocks))).all("main")[0]


def rows_of(block: Block) -> list[list[str]]:
    return [[cell.replace("\N{NO-BREAK SPACE}", " ") for cell in row] for row in main_of(block).all("table")[0].rows()]


def data_of(block: Block) -> list:
    """What the script of the page gets to draw."""
    return [json.loads(node.text) for node in main_of(block).all("script")]


# -- The page --------------------------------------------------------------------------------------------------------


def test_the_page_loads_nothing_runs_one_script_and_has_distinct_names(tmp_path: Path):
    page = render(whole())
    tree = read_html(page)
    policy = tree.all("meta")[1].attributes["content"] or ""
    assert "default-src 'none'" in policy and digest(tree.all("script")[-1].text) in policy
    assert [node.attributes.get("type") for node in tree.all("script")[:-1]] == ["application/json"] * 7
    outside = re.findall(
        r"""(?:https?:)?//[\w.]+|@import|url\(|<iframe|\bsrc=""", re.sub(r"<script>.*", "", page, flags=re.DOTALL)
    )
    assert set(outside) <= {"http://www.w3.org"}
    names = Counter(node.attributes["id"] for node in tree.all() if "id" in node.attributes)
    targets = [(node.attributes["href"] or "")[1:] for node in tree.all("a")]
    assert max(names.values()) == 1 and targets and set(targets) <= set(names)
    levels = [int(node.tag[1]) for node in tree.all() if re.fullmatch("h[1-6]", node.tag)]
    assert levels[0] == 1 and all(after <= before + 1 for before, after in zip(levels, levels[1:], strict=False))
    assert page == render(whole())
    write_report(tmp_path / "run" / "report.html", whole())
    assert (tmp_path / "run" / "report.html").read_text(encoding="utf-8") == page
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError):
        write_report(tmp_path / "file" / "report.html", whole())


def test_blocks_without_content_leave_no_trace():
    assert render(Report("t", "h", blocks=EMPTY)) == render(Report("t", "h"))
    every = {
        one
        for one in [*vars(kinds).values(), *vars(charts).values()]
        if isinstance(one, type) and issubclass(one, Block)
    } - {Block}
    assert {type(one) for one in EMPTY} == {type(one) for one in blocks()} | {Facts, Paragraph, Table} == every


# -- Text is text ----------------------------------------------------------------------------------------------------

ATTACK = "</style></title></script><script>alert(1)</script><img src=x onerror=\"alert('2')\">"


def shape(node: Node) -> list:
    """The tags of a tree, without spans that only keep words together."""
    inside = [shape(part) for part in node.parts if isinstance(part, Node) and part.classes != ["together"]]
    return [node.tag, inside]


EXPECTED = shape(read_html(render(whole(" plain"))))


@given(st.text(st.characters(), min_size=1, max_size=40))
@example(ATTACK)
@example('" onmouseover="alert(1)')
@example("]]><!--")
@example("\ud800\u202e\u0000\r\n")
@settings(max_examples=25, deadline=None)
def test_no_text_changes_the_elements_of_the_page_and_all_of_it_is_shown(text: str):
    page = render(whole(f" {text}"))
    page.encode("utf-8")
    tree = read_html(page)
    assert shape(tree) == EXPECTED
    for node in tree.all():
        for name, value in node.attributes.items():
            assert not name.startswith("on") and name not in {"src", "action", "srcdoc"}
            assert name != "href" or (value or "").startswith(("#", "data:image/svg+xml,"))
            assert name != "style" or (value or "").startswith(("width:", "--depth:"))
    assert tree.all(class_="name")[0].text == f"A run {clean(text)}"
    assert f"Hardware {clean(text)}" in [cell.text for cell in tree.all("td")]


def test_invalid_characters_are_replaced_and_markup_is_escaped_once():
    assert clean("a\ud800b\x00c\x1bd\ufffee\tf\ng") == "a\ufffdb\ufffdc\ufffdd\ufffde\tf\ng"
    assert clean("line\r\nline\rline") == "line\nline\nline" and escape(escape("a < b")) == "a &lt; b"
    assert element("b", element("i", "&"), "<", class_='"') == '<b class="&quot;"><i>&amp;</i>&lt;</b>'


# -- What blocks show ------------------------------------------------------------------------------------------------


def test_a_comparison_keeps_published_rows_apart_and_stresses_the_best_measured_one():
    systems = [
        System("printed", {"F1": 0.99}, source="published"),
        System("ours", {"F1": Score(0.8, 0.01), "time": "41 s"}, seeds=3),
        System("simple", {"F1": 0.85}, source="baseline", note="TF-IDF"),
        System("failed", {"F1": float("nan")}),
    ]
    assert rows_of(Comparison(systems)) == [
        ["System", "F1", "time", "Seeds"],
        ["Measured here"],
        ["ours", "0.800 ± 0.010", "41 s", "3"],
        ["simple\nsimpler method\nTF-IDF", "0.850", "–", "–"],
        ["failed", "–", "–", "–"],
        ["Published elsewhere, not measured here"],
        ["printed", "0.990", "–", "–"],
    ]
    assert [node.text for node in main_of(Comparison(systems)).all("strong")] == ["0.850"]
    lower = Comparison([System("a", {"loss": 2.0}), System("b", {"loss": 1.5})], higher_is_better=False)
    assert [node.text for node in main_of(lower).all("strong")] == ["1.500"]
    assert not main_of(Comparison(systems[:2])).all("strong")


def test_a_confusion_matrix_has_fractions_recall_and_precision_or_the_pairs_most_often_confused():
    rows = rows_of(Confusion(["yes", "no"], [[8, 2], [1, 0]]))
    assert [row[1:] for row in rows] == [
        ["yes", "no", "Recall"], ["880 %", "220 %", "80 %"], ["1100 %", "0", "0 %"], ["89 %", "0 %", ""],
    ]  # fmt: skip
    assert rows_of(Confusion(["a", "b"], [[3, 0], [0, 0]]))[2][-1] == "–"
    counts = [[5 * (gold == other) for other in range(30)] for gold in range(30)]
    counts[3][4], counts[7][1] = 2, 5
    many = rows_of(Confusion([f"label {number}" for number in range(30)], counts))
    assert many[1:] == [["label 7", "label 1", "5", "50.0 %"], ["label 3", "label 4", "2", "28.6 %"]]


def test_a_matrix_is_shaded_by_its_largest_value_and_says_what_is_masked():
    grid = Grid(["a"], ["x", "y", "z"], [[0.5, -1.0, None]], "weights")
    cells = main_of(grid).all("tr")[1].all("td")
    assert [cell.attributes.get("style") for cell in cells] == ["--depth:0.500", "--depth:1.000", None]
    assert [cell.text for cell in cells] == ["0.50", "−1.00", ""] and "below" in cells[1].classes
    assert [cell.attributes["title"] for cell in cells] == ["a, x: 0.50", "a, y: −1.00", "a, z: masked"]
    assert Grid(["a"], ["b", "c"], [[0.8, 0.9]], "", low=0.8).depth(0.85) == pytest.approx(0.5)
    pattern = Grid.of_pattern("layer 1", "##.#\n.##.\n..##\n####")
    assert [[int(value or 0) for value in row] for row in pattern.values] == [
        [1, 1, 0, 1],
        [0, 1, 1, 0],
        [0, 0, 1, 1],
        [1] * 4,
    ]


# -- Charts: what the script gets ------------------------------------------------------------------------------------


def test_a_chart_has_finite_points_in_order_and_says_what_it_leaves_out():
    nan, inf = float("nan"), float("inf")
    chart = Chart("Loss", [Series("a", [3, 1, 2, 4, 5], [1.0, 3.0, nan, None, inf]), Series("b", [1], [2.0])])
    (data,) = data_of(Curves([chart, Chart("none", [Series("none", [1], [None])])]))
    assert [one["points"] for one in data["series"]] == [[[1.0, 3.0], [3.0, 1.0]], [[1.0, 2.0]]]
    text = main_of(Curves([chart])).text
    assert "Without 2 values that are not finite." in text and "Loss by step: a from 3 to 1; b from 2 to 2." in text
    logs = Chart("Norm", [Series("a", [1, 2, 3], [1.0, 0.0, 10.0])], log_y=True)
    assert data_of(Curves([logs]))[0]["series"][0]["points"] == [[1.0, 1.0], [3.0, 10.0]]


def test_long_lines_are_thinned_but_keep_their_spikes():
    points = np.stack([np.arange(50_000.0), np.sin(np.arange(50_000) / 500)], axis=1)
    points[31_234, 1] = 90.0
    kept = thinned(points)
    assert len(kept) <= 1502 and kept[:, 1].max() == 90.0 and (np.diff(kept[:, 0]) > 0).all()
    assert kept[0, 0] == 0 and kept[-1, 0] == 49_999


# -- Pictures in files of their own ----------------------------------------------------------------------------------

GRID = Grid(["a <b>", "c"], ["one", "two"], [[1.0, 0.0], [0.5, None]], "Two <texts> & a half")


def test_a_matrix_is_written_as_svg_or_png(tmp_path: Path):
    pictures.write_picture(tmp_path / "p.svg", [GRID, GRID])
    tree = read_html((tmp_path / "p.svg").read_text())
    assert [node.text for node in tree.all("title")] == ["a <b>, one: 1.000", "a <b>, two: 0.000", "c, one: 0.500"] * 2
    assert "Two <texts> & a half" in tree.text
    pytest.importorskip("resvg_py", reason="resvg-py is not installed")
    pictures.write_picture(tmp_path / "p.png", [GRID])
    data = (tmp_path / "p.png").read_bytes()
    width = float(re.findall(r'viewBox="0 0 (\d+)', pictures.drawing([GRID]))[0])
    assert data.startswith(b"\x89PNG") and int.from_bytes(data[16:20], "big") == 2 * width


def test_other_endings_and_a_missing_extra_are_said_before_the_work(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(ConfigError, match=r"\.png"):
        pictures.check_picture(Path("p.gif"))
    monkeypatch.setattr(pictures.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match="plot"):
        pictures.check_picture(Path("p.png"))
    pictures.check_picture(Path("p.svg"))


def test_values_durations_and_sizes_have_one_form_each():
    nan, inf = float("nan"), float("inf")
    values = (None, nan, inf, -inf, True, 1204, -1204, 0.8941, -0.0, 3.0, 12.345, 5291264.4, -2e-5, 0.0214, "as it is")
    told = "– – ∞ −∞ yes 1,204 −1,204 0.894 0 3 12.35 5,291,264 −2e-5 0.0214 as it is"
    assert " ".join(map(numbers.show, values)) == told
    seconds = map(numbers.duration, (0.42, 12.34, 59.7, 200, 180, 3599.9, 7500, 273600, -200))
    told = "0.42 s, 12.3 s, 1 min, 3 min 20 s, 3 min, 1 h 00 min, 2 h 05 min, 3 d 4 h, −3 min 20 s"
    assert ", ".join(seconds).replace(numbers.NO_BREAK, " ") == told
    sizes = map(numbers.file_size, (0, 999, 999_600, 45_100_000, 2 * 10**12))
    assert ", ".join(sizes).replace(numbers.NO_BREAK, " ") == "0 B, 999 B, 1 MB, 45.1 MB, 2.0 TB"
