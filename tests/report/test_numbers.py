"""How numbers read on the page."""

from __future__ import annotations

import pytest

from maskwright.report import numbers

NB = numbers.NO_BREAK


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (float("nan"), "–"),
        (float("inf"), "∞"),
        (float("-inf"), "−∞"),
        (True, "yes"),
        (1204, "1,204"),
        (-1204, "−1,204"),
        (0.8941, "0.894"),
        (0.0, "0"),
        (-0.0, "0"),
        (3.0, "3"),
        (3.8841, "3.884"),
        (12.345, "12.35"),
        (5291264.4, "5,291,264"),
        (2e-5, "2e-5"),
        (-2e-5, "−2e-5"),
        (0.0214, "0.0214"),
        ("as it is", "as it is"),
    ],
)
def test_a_value_is_shown_in_one_form(value: numbers.Value, text: str):
    assert numbers.show(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.42, "0.42 s"),
        (12.34, "12.3 s"),
        (59.7, "1 min"),
        (200, "3 min 20 s"),
        (180, "3 min"),
        (3599.9, "1 h 00 min"),
        (7500, "2 h 05 min"),
        (273600, "3 d 4 h"),
        (-200, "−3 min 20 s"),
    ],
)
def test_durations_carry_their_units(seconds: float, text: str):
    assert numbers.duration(seconds).replace(NB, " ") == text


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (999, "999 B"), (999_600, "1 MB"), (45_100_000, "45.1 MB"), (2 * 10**12, "2.0 TB")]
)
def test_file_sizes_step_at_a_thousand(size: int, text: str):
    assert numbers.file_size(size).replace(NB, " ") == text
