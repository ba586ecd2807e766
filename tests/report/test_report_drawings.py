"""Drawings of examples in a report: grids, flows, tokens, code, folded answers."""

from __future__ import annotations

import pytest

from maskwright.report import (
    Arrow,
    Block,
    Box,
    Collapsible,
    Flow,
    Grid,
    Paragraph,
    Report,
    SourceCode,
    Token,
    Tokens,
    render,
)
from report.html_reading import Node, read_html

HOSTILE = "</svg><script>alert(1)</script>"


def main_of(*blocks: Block) -> Node:
    return read_html(render(Report("title", "headline", blocks=blocks))).all("main")[0]


def test_a_grid_shows_every_value_and_rules_out_what_is_none():
    tree = main_of(Grid(["a", "b"], ["x", "y", "z"], [[0.5, -1.0, None], [0.25, 0.0, 1.0]], "attention pattern"))
    assert [node.text for node in tree.all("text", "value")] == ["0.50", "−1.00", "0.25", "0.00", "1.00"]
    assert len(tree.all("rect", "hidden")) == 1 and len(tree.all("rect", "below")) == 1
    assert [node.text for node in tree.all("title")][:3] == ["a, x: 0.50", "a, y: −1.00", "a, z: masked"]
    depths = [node.attributes["style"] for node in tree.all("rect") if node.attributes.get("style")]
    assert depths == [f"--depth:{depth}" for depth in ("0.500", "1.000", "0.250", "0.000", "1.000")]


def test_a_grid_without_digits_shows_no_numbers_and_long_labels_stand_upright():
    tree = main_of(Grid(["a"], ["a long label"], [[0.5]], "caption", digits=None))
    assert not tree.all("text", "value")
    assert any("rotate" in (node.attributes.get("transform") or "") for node in tree.all("text", "label"))


@pytest.mark.parametrize("values", [[[1.0]], [[1.0, 2.0], [3.0]], [[1.0, 2.0]] * 3])
def test_a_grid_needs_a_value_for_every_place(values: list[list[float]]):
    with pytest.raises(ValueError, match="2 rows and 2 columns"):
        Grid(["a", "b"], ["x", "y"], values, "caption")


def test_a_flow_has_its_boxes_and_arrows_that_end_outside_of_them():
    tree = main_of(Flow([Box("from", 0, 0), Box("to", 2, 1, True)], [Arrow(0, 1, "Q")], "a way"))
    assert [node.text for node in tree.all("text", "word")] == ["from", "to"]
    assert len(tree.all("polygon")) == 1 and len(tree.all("rect", "strong")) == 1
    (line,) = tree.all("line", "line")
    target = tree.all("rect", "strong")[0].attributes
    assert float(line.attributes["x2"]) <= float(target["x"])
    assert "Q" in tree.text and tree.all("svg")[0].attributes["aria-label"] == "a way"


def test_tokens_have_their_kind_and_what_stands_below():
    tree = main_of(Tokens([("masked", [Token("the"), Token("[MASK]", "masked", "store")])], note="a note"))
    assert [node.classes for node in tree.all("span", "token")] == [["token"], ["token", "masked"]]
    assert [node.text for node in tree.all("span", "under")] == ["store"] and "a note" in tree.text


def test_an_answer_is_folded_below_its_question_and_code_keeps_its_lines():
    tree = main_of(
        Collapsible("Why?", "The answer", [Paragraph("Because.")]), SourceCode([("a:b", "def b():\n    return 1")])
    )
    folded = tree.all("details", "folded")[0]
    assert "Because." in folded.text and "open" not in folded.attributes
    assert "Why?" in tree.text and "Why?" not in folded.text
    assert tree.all("details", "code")[0].all("pre")[0].text == "def b():\n    return 1"


def test_text_of_drawings_is_only_text():
    tree = main_of(
        Grid([HOSTILE], [HOSTILE], [[1.0]], HOSTILE),
        Flow([Box(HOSTILE, 0, 0), Box("x", 1, 0)], [Arrow(0, 1, HOSTILE)], HOSTILE),
        Tokens([(HOSTILE, [Token(HOSTILE, below=HOSTILE)])]),
        SourceCode([(HOSTILE, HOSTILE)]),
        Collapsible(HOSTILE, HOSTILE, [Paragraph(HOSTILE)]),
    )
    assert not tree.all("script") and tree.text.count(HOSTILE) >= 9


def test_what_is_empty_is_left_out():
    assert (
        main_of(Tokens([]), Grid([], [], [], "x"), SourceCode([]), Flow([], [], "x"), Collapsible("q", "a", [])).parts
        == []
    )
