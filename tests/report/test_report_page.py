"""The page as a whole: self-contained, in order, the same for the same content, readable without colors or scripts."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from maskwright import report as package
from maskwright.core.errors import StorageError
from maskwright.report import (
    AlignmentMap,
    Bars,
    Block,
    Chart,
    Checkpoints,
    Collapsible,
    ColoredText,
    Comparison,
    Confusion,
    Curves,
    Dots,
    Facts,
    Flow,
    Grid,
    Health,
    HeatMap,
    Histogram,
    KeyFigures,
    MaskExamples,
    NextSteps,
    Paragraph,
    Report,
    RunMetadata,
    Scatter,
    Section,
    SeenBlocks,
    Series,
    SourceCode,
    Table,
    Tokens,
    Weights,
    WorstErrors,
    render,
    write_report,
)
from maskwright.report.page import VIEWS
from report.html_reading import Node, read_html
from report.report_sample import drawn_report, finetuning_report, pretraining_report

STYLE = (Path(package.__file__).parent / "style.css").read_text(encoding="utf-8")
EMPTY: list[Block] = [
    Bars([]),
    Checkpoints([]),
    Comparison([]),
    Confusion(["a"], [[0]]),
    Dots({}),
    Curves([Chart("nothing", [Series("none", [], [])])]),
    Facts({}),
    HeatMap([], [], [], "none"),
    AlignmentMap([], [], [], "none"),
    ColoredText([]),
    Histogram([0, 1], [0]),
    KeyFigures([]),
    MaskExamples([]),
    NextSteps([]),
    Scatter([], [], [], [], "none"),
    SeenBlocks({}),
    Paragraph(""),
    Table(["a"], []),
    Weights(),
    RunMetadata(),
    WorstErrors([]),
    Grid([], [], [], "none"),
    Flow([], [], "none"),
    Tokens([]),
    SourceCode([]),
    Collapsible("a question", "an answer", []),
    Section("empty", [Paragraph("")]),
]


@pytest.fixture(scope="module", params=[pretraining_report, finetuning_report])
def page(request: pytest.FixtureRequest) -> str:
    return render(request.param())


def test_the_page_asks_for_nothing_from_outside(page: str):
    policy = [node.attributes.get("content") for node in read_html(page).all("meta")][1]
    assert policy is not None
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:;")
    outside = re.findall(r"""(?:https?:)?//[\w.]+|@import|url\(|<script|<iframe|\bsrc=""", page)
    assert set(outside) <= {"http://www.w3.org"}  # the namespace inside the icon's own data


def test_it_is_balanced_html_with_one_headline_and_distinct_names(page: str):
    tree = read_html(page)
    assert page.startswith("<!doctype html>\n<html")
    assert len(tree.all("h1")) == len(tree.all("main")) == 1
    names = Counter(node.attributes["id"] for node in tree.all() if "id" in node.attributes)
    assert max(names.values()) == 1
    targets = [(node.attributes["href"] or "")[1:] for node in tree.all("a")]
    assert targets
    assert set(targets) <= set(names)


def test_headings_go_down_one_step_at_a_time(page: str):
    levels = [int(node.tag[1]) for node in read_html(page).all() if re.fullmatch("h[1-6]", node.tag)]
    assert levels[0] == 1
    assert all(following <= level + 1 for level, following in zip(levels, levels[1:], strict=False))


def test_the_same_content_makes_the_same_page():
    assert render(pretraining_report()) == render(pretraining_report())


def test_the_style_names_nothing_that_no_page_has():
    used: set[str] = set()
    for report in (pretraining_report(), finetuning_report(), drawn_report()):
        for node in read_html(render(report)).all():
            used |= set(node.classes)
    styled = set(re.findall(r"\.([a-z][\w-]*)", re.sub(r"/\*.*?\*/|\"[^\"]*\"|\d\.\d+\w*", "", STYLE, flags=re.DOTALL)))
    numbered = re.compile(r"(s|h|p|room-)\d")
    assert {name for name in styled - used if not numbered.fullmatch(name)} == {"bad", "long"}


def test_empty_blocks_leave_no_trace():
    assert render(Report("t", "h", blocks=EMPTY)) == render(Report("t", "h"))


def test_every_kind_of_block_can_be_empty_and_is_known():
    kinds = {type(block) for block in EMPTY}
    assert kinds == {*VIEWS, Section, Collapsible}
    assert kinds == set(Block.__subclasses__())


def test_blocks_come_in_the_order_given_and_those_of_a_section_below_its_heading():
    blocks = [Paragraph("one", "B"), Section("A", [Paragraph("two", "D"), Paragraph("three", "C")], "lead")]
    tree = read_html(render(Report("t", "h", blocks=blocks)))
    headings = [(node.tag, node.text) for node in tree.all() if node.tag in {"h2", "h3"}]
    assert headings == [("h2", "B"), ("h2", "A"), ("h3", "D"), ("h3", "C")]


def test_equal_titles_get_distinct_anchors():
    tree = read_html(render(Report("t", "h", blocks=[Paragraph(str(n), "Same / Title!") for n in range(3)])))
    assert [node.attributes["id"] for node in tree.all("section")] == ["same-title", "same-title-2", "same-title-3"]


@pytest.mark.parametrize(("level", "word"), [("good", "Healthy"), ("watch", "Worth a look"), ("bad", "Not healthy")])
def test_health_is_a_word_and_not_only_a_color(level: str, word: str):
    tree = read_html(render(Report("t", "h", Health(level, ["because"]))))  # type: ignore[arg-type]
    assert word in tree.all(class_="health")[0].text
    assert "because" in tree.text


def test_an_unknown_level_of_health_is_refused():
    with pytest.raises(ValueError, match="good, watch or bad"):
        Health("fine")  # type: ignore[arg-type]


def test_a_block_of_an_unknown_kind_is_refused():
    class Odd(Paragraph):
        pass

    with pytest.raises(TypeError, match="Odd"):
        render(Report("t", "h", blocks=[Odd("text")]))


def test_lines_are_distinguishable_without_color():
    dashes = dict(re.findall(r"\.main\.s(\d):not\(\.solid\) \{ stroke-dasharray: ([\d ]+);", STYLE))
    assert len(dashes) == 5
    assert len(set(dashes.values())) == 5


def test_the_report_is_written_whole_or_not_at_all(tmp_path: Path):
    target = tmp_path / "run" / "report.html"
    write_report(target, pretraining_report())
    assert target.read_text(encoding="utf-8") == render(pretraining_report())
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError):
        write_report(tmp_path / "file" / "report.html", pretraining_report())


def test_the_style_comes_with_the_package(page: str):
    style = read_html(page).all("style")[0]
    assert isinstance(style, Node)
    assert style.text == STYLE
