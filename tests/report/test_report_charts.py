"""Charts: axes, smoothing, seeds, gaps, and the few points that are hard to draw."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskwright.report import Bar, Bars, Chart, Histogram, Score, Series
from maskwright.report.charts.axes import MAX_POINTS, Line, downsample, smooth, traces
from maskwright.report.charts.bars import bar_list, histogram, whisker
from maskwright.report.charts.lines import line_chart
from maskwright.report.charts.scales import Scale, data_scale, exact_scale, labels
from report.html_reading import Node, read_html

finite = st.floats(-1e9, 1e9, allow_subnormal=False)


def drawn(chart: Chart) -> Node:
    return read_html(line_chart(chart))


def percents(node: Node, *names: str) -> list[float]:
    return [float((node.attributes[name] or "").rstrip("%")) for name in names]


# -- axes ----------------------------------------------------------------------------------------------------------


@given(st.lists(finite, min_size=1, max_size=8), st.booleans())
def test_an_axis_holds_its_values_in_order(values: list[float], from_zero: bool):
    for scale in (data_scale(values, from_zero=from_zero), exact_scale(values)):
        places = [scale.place(value) for value in sorted(values)]
        assert all(-1e-9 <= place <= 1 + 1e-9 for place in places)
        assert places == sorted(places)


@given(st.lists(st.floats(1e-9, 1e9), min_size=1, max_size=8))
def test_a_logarithmic_axis_holds_its_values(values: list[float]):
    scale = data_scale(values, is_log=True)
    assert all(0 <= scale.place(value) <= 1 for value in values)
    assert 1 <= len(scale.ticks()) <= 14


@given(finite, st.floats(1e-6, 1e9), st.integers(2, 8))
def test_ticks_are_few_lie_inside_and_differ(low: float, span: float, wanted: int):
    scale = Scale(low, low + span)
    if scale.high - scale.low < 1e-5 * abs(low):
        return  # an axis finer than floats resolve at that distance from zero
    ticks = scale.ticks(wanted)
    assert 1 <= len(ticks) <= wanted + 1
    assert ticks == sorted(set(ticks))
    assert all(-1e-6 <= scale.place(tick) <= 1 + 1e-6 for tick in ticks)


@pytest.mark.parametrize(
    ("ticks", "unit", "texts"),
    [
        ([0, 0.5, 1], "number", ["0.0", "0.5", "1.0"]),
        ([0, 0.25, 0.5], "number", ["0.00", "0.25", "0.50"]),
        ([0, 500, 1000], "number", ["0", "500", "1,000"]),
        ([0, 10_000, 20_000], "number", ["0", "10k", "20k"]),
        ([0, 2e-4, 4e-4], "number", ["0", "2e-4", "4e-4"]),
        ([0.1, 0.2], "percent", ["10\N{NO-BREAK SPACE}%", "20\N{NO-BREAK SPACE}%"]),
        ([0.885, 0.89], "percent", ["88.5\N{NO-BREAK SPACE}%", "89.0\N{NO-BREAK SPACE}%"]),
        ([0.5], "number", ["0.5"]),
        ([1.0], "number", ["1"]),
        ([-1, 0], "number", ["−1", "0"]),
        ([], "number", []),
    ],
)
def test_labels_have_as_many_digits_as_tell_them_apart(ticks: list[float], unit: str, texts: list[str]):
    assert labels(ticks, unit) == texts


def test_labels_of_a_logarithmic_axis_are_short():
    assert labels([0.001, 0.1, 10, 1000, 100_000], is_log=True) == ["0.001", "0.1", "10", "1,000", "100k"]


# -- from series to lines ------------------------------------------------------------------------------------------


@given(finite, st.floats(-100, 100), st.integers(3, 300))
def test_smoothing_leaves_a_straight_line_straight(start: float, slope: float, points: int):
    x = np.arange(points, dtype=np.float64)
    y = start + slope * x
    assert np.allclose(smooth(Line(x, y)).y, y, atol=1e-6 * (abs(start) + abs(slope) * points + 1))


def test_smoothing_takes_noise_away_and_keeps_the_course():
    x = np.arange(400, dtype=np.float64)
    course = 3 + np.exp(-x / 80)
    noisy = course + np.random.default_rng(0).normal(0, 0.2, 400)
    left = np.abs(smooth(Line(x, noisy)).y - course)
    assert left.mean() < 0.06 < np.abs(noisy - course).mean() / 2


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=3000))
def test_thinning_keeps_ends_and_extremes(values: list[float]):
    line = Line(np.arange(len(values), dtype=np.float64), np.array(values))
    short = downsample(line)
    assert len(short.x) <= MAX_POINTS + 2
    assert (np.diff(short.x) > 0).all()
    assert (short.x[0], short.x[-1]) == (line.x[0], line.x[-1])
    assert (short.y.min(), short.y.max()) == (line.y.min(), line.y.max())


def test_series_of_one_name_are_seeds_with_their_mean_where_all_are_defined():
    found, _ = traces([Series("dev", [1, 2, 3], [1, 2, 3]), Series("dev", [1, 2], [3, 4]), Series("train", [1], [0])])
    assert [(trace.name, trace.seeds) for trace in found] == [("dev", 2), ("train", 1)]
    assert found[0].main.x.tolist() == [1, 2]
    assert found[0].main.y.tolist() == [2, 3]
    assert len(found[0].background) == 2


def test_points_are_drawn_in_the_order_of_x():
    found, _ = traces([Series("loss", [3, 1, 2], [30, 10, 20])])
    assert found[0].main.y.tolist() == [10, 20, 30]


def test_unequal_lengths_are_refused():
    with pytest.raises(ValueError, match="'loss' has 2 x for 1 y"):
        Series("loss", [1, 2], [1])


# -- the drawing ---------------------------------------------------------------------------------------------------


def test_values_that_are_not_finite_are_left_out_and_counted():
    chart = Chart("Loss", [Series("train", [1, 2, 3, 4], [4.0, float("nan"), float("inf"), 3.0])])
    tree = drawn(chart)
    assert "Without 2 values that are not finite." in tree.text
    points = tree.all("polyline", "main")[0].attributes["points"]
    assert points is not None
    assert len(points.split()) == 2
    assert "nan" not in line_chart(chart).lower()


def test_what_was_not_measured_is_no_fault():
    assert "Without" not in drawn(Chart("Score", [Series("dev", [1, 2, 3], [0.1, None, 0.3])])).text


def test_a_logarithmic_chart_counts_what_is_not_positive():
    assert (
        "Without 1 value that is not finite and positive."
        in drawn(Chart("Norm", [Series("norm", [1, 2, 3], [1.0, 0.0, 2.0])], log_y=True)).text
    )


def test_a_chart_without_a_finite_value_says_so_and_draws_nothing():
    tree = drawn(Chart("Loss", [Series("train", [1], [float("nan")])], note="Diverged."))
    assert "Diverged. Without 1 value that is not finite." in tree.text
    assert not tree.all("svg")


@pytest.mark.parametrize("y", [0.0, 0.7, -3.0, 1e12, 1e-12])
@pytest.mark.parametrize("points", [1, 2, 50])
def test_a_constant_or_a_single_point_is_drawn_in_the_middle(y: float, points: int):
    tree = drawn(Chart("Loss", [Series("train", list(range(points)), [y] * points)]))
    markup = line_chart(Chart("Loss", [Series("train", list(range(points)), [y] * points)]))
    assert not re.search(r"\b(nan|inf)\b", markup)
    if points < 24:
        dots = [node for node in tree.all("circle", "dot") if "cx" in node.attributes and "%" in node.attributes["cx"]]
        assert percents(dots[0], "cy") == [50]


@pytest.mark.parametrize(
    ("x", "texts"),
    [([1], ["1"]), ([1, 2, 3], ["1", "2", "3"]), ([0.0, 0.5, 1.0], ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"])],
)
def test_x_that_counts_whole_things_gets_whole_ticks(x: list[float], texts: list[str]):
    tree = drawn(Chart("Loss", [Series("train", x, [0.5] * len(x))]))
    assert [node.text for node in tree.all("text", "tick") if node.attributes["class"] == "tick"] == texts


@pytest.mark.parametrize("y", [0.0, 0.875, 1.0])
def test_an_axis_of_shares_stays_between_none_and_all(y: float):
    tree = drawn(Chart("Right", [Series("dev", [1, 2], [y, y])], unit="percent"))
    shown = [float(node.text.rstrip("\N{NO-BREAK SPACE}%")) for node in tree.all("text", "left")]
    assert shown
    assert all(0 <= value <= 100 for value in shown)


def test_a_logarithmic_line_is_smoothed_as_it_looks():
    x = np.arange(100, dtype=np.float64)
    found, _ = traces([Series("norm", x, 10 ** (x / 20))], is_log=True)
    assert np.allclose(found[0].main.y, 10 ** (x / 20))


def test_a_baseline_stands_inside_the_drawing_and_in_the_legend():
    tree = drawn(Chart("Loss", [Series("train", [1, 2], [1, 2])], baselines={"counting words": 6.02}))
    line = next(node for node in tree.all("line", "baseline") if node.attributes["x2"] == "100%")
    assert 0 < percents(line, "y1")[0] < 20
    assert "counting words6.020" in tree.all("ul", "legend")[0].text


def test_strips_that_show_values_cover_the_drawing_without_a_gap():
    tree = drawn(Chart("Loss", [Series("train", list(range(500)), list(range(500)))]))
    strips = [percents(node.all("rect")[0], "x", "width") for node in tree.all("g", "probe")]
    assert 2 < len(strips) <= 40
    assert strips[0][0] == 0
    for (left, width), (following, _) in zip(strips, strips[1:], strict=False):
        assert math.isclose(left + width, following, abs_tol=0.02)
    assert math.isclose(sum(strips[-1]), 100, abs_tol=0.02)


def test_the_table_of_values_says_what_the_lines_show():
    tree = drawn(Chart("Right", [Series("dev", [100, 200], [0.25, 0.5]), Series("all", [200], [1.0])], unit="percent"))
    rows = [[cell.replace("\N{NO-BREAK SPACE}", " ") for cell in row] for row in tree.all("table")[0].rows()]
    assert rows == [["step", "dev", "all"], ["100", "25.0 %", ""], ["200", "50.0 %", "100.0 %"]]


def test_a_long_run_makes_a_small_chart():
    draw = np.random.default_rng(0)
    chart = Chart("Loss", [Series("train", range(200_000), draw.normal(0, 1, 200_000))])
    assert len(line_chart(chart)) < 60_000


def test_a_reader_who_cannot_see_hears_the_first_and_last_values():
    svg = drawn(Chart("Loss", [Series("train", [1, 2], [4.0, 3.5])])).all("svg")
    assert [node.attributes["aria-label"] for node in svg if "aria-label" in node.attributes] == [
        "Loss by step: train from 4 to 3.500."
    ]


# -- bars ----------------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(0, 1e12), min_size=1, max_size=8))
def test_bars_are_as_long_as_their_values(values: list[float]):
    tree = read_html(bar_list([Bar("x", value) for value in values]))
    widths = [
        float(re.findall(r"[\d.]+", node.all("span")[0].attributes["style"] or "")[0])
        for node in tree.all("span", "track")
    ]
    longest = max(values) or 1.0
    assert widths == pytest.approx([100 * value / longest for value in values], abs=0.051)


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
def test_a_bar_that_cannot_be_drawn_is_refused(value: float):
    with pytest.raises(ValueError, match="finite and not negative"):
        Bars([Bar("x", value)])


def test_a_histogram_draws_every_count_and_its_marks():
    tree = read_html(histogram(Histogram([0, 10, 20, 40], [5, 0, 15], marks={"limit": 20, "outside": 99})))
    bars = [percents(node, "x", "width") for node in tree.all("rect", "bar")]
    assert bars == [[0, 25], [50, 50]]
    assert "limit" in tree.text
    assert "outside" not in tree.text
    assert "15 (75.0\N{NO-BREAK SPACE}%)" in tree.text


def test_a_histogram_needs_one_edge_more_than_counts():
    with pytest.raises(ValueError, match="2 counts need 3 edges, not 2"):
        Histogram([0, 1], [1, 1])


def test_whiskers_reach_one_deviation_to_each_side():
    tree = read_html(whisker(Score(0.5, 0.1, [0.4, 0.6]), Scale(0.0, 1.0)))
    assert percents(tree.all("line", "whisker")[0], "x1", "x2") == [40, 60]
    assert percents(tree.all("circle", "mean")[0], "cx") == [50]
    assert len(tree.all("line", "run")) == 2
