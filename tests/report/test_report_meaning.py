"""Heat maps and scatter plots: every number and point is there, colors follow values, sizes follow counts."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from maskwright.report.charts.grids import heat_map, span_of
from maskwright.report.charts.scatter import scatter

MATRIX = [[1.0, 0.5, -0.2], [0.5, 1.0, 0.31], [-0.2, 0.31, 1.0]]
SVG = "{http://www.w3.org/2000/svg}"


def fills(picture: str) -> list[str]:
    return re.findall(r'fill="(#[0-9a-f]{6})"></rect>', picture)


def test_every_value_is_in_its_cell_and_the_darkest_are_the_highest():
    picture = str(heat_map(["a", "b", "c"], ["1", "2", "3"], MATRIX, "title"))
    tree = ElementTree.fromstring(picture)
    words = [node.text for node in tree.iter(f"{SVG}text")]
    assert [word for word in words if re.fullmatch(r"-?\d\.\d\d", word or "")] == [
        f"{value:.2f}" for row in MATRIX for value in row
    ]
    cells = fills(picture)[1:]  # the first is the paper
    light = [sum(int(color[place : place + 2], 16) for place in (1, 3, 5)) for color in cells]
    assert light[0] == light[4] == light[8] == min(light[place] for place in (0, 1, 5))
    assert light[1] < light[5]
    red, blue = int(cells[2][1:3], 16), int(cells[2][5:7], 16)
    assert red > blue, "below 0 is warm"


def test_many_rows_make_small_cells_with_their_values_under_a_pointer():
    count = 30
    matrix = [[1.0 if row == column else 0.3 for column in range(count)] for row in range(count)]
    tree = ElementTree.fromstring(heat_map(["text"] * count, list(map(str, range(count))), matrix, "title"))
    assert len(list(tree.iter(f"{SVG}title"))) == count * count


@pytest.mark.parametrize(("matrix", "span"), [([[1.0]], (0.9, 1.0)), ([[1.0, 0.37], [0.37, 1.0]], (0.3, 1.0))])
def test_shades_run_from_the_lowest_tenth_to_the_highest_value(matrix, span):
    assert span_of(matrix) == pytest.approx(span)


def test_points_are_inside_in_the_color_of_their_group_with_their_text():
    places = [(-3.0, 0.0), (5.0, 2.0), (1.0, -4.0)]
    tree = ElementTree.fromstring(scatter(places, [0, 1, 0], ["<a>", "b", "c"], ["first", "second"], "title"))
    dots = [node for node in tree.iter(f"{SVG}circle") if node.find(f"{SVG}title") is not None]
    assert [dot.find(f"{SVG}title").text for dot in dots] == ["1: <a>", "2: b", "1: c"]
    assert dots[0].get("fill") == dots[2].get("fill") != dots[1].get("fill")
    xs, ys = ([float(dot.get(name)) for dot in dots] for name in ("cx", "cy"))
    assert xs[0] < xs[2] < xs[1] and ys[1] < ys[0] < ys[2], "right is right and up is up"
    width, height = map(float, tree.get("viewBox").split()[2:])
    assert all(0 < x < width for x in xs) and all(0 < y < height for y in ys)


def test_one_point_alone_can_be_drawn():
    assert "circle" in scatter([(1.0, 1.0)], [0], ["a"], ["only"], "title")
