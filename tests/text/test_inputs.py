"""Frames of other libraries as texts and pairs: their columns are read by name."""

from __future__ import annotations

import pytest

from maskwright.text.readers.inputs import split_pairs

OWN = {"text_pair": ["c"], "text": ["a"]}


@pytest.mark.parametrize(
    ("library", "frame_of"),
    [
        ("pyarrow", lambda pyarrow: pyarrow.table(OWN)),
        ("pandas", lambda pandas: pandas.DataFrame(OWN)),
        ("polars", lambda polars: polars.DataFrame(OWN)),
        ("datasets", lambda datasets: datasets.Dataset.from_dict(OWN)),
    ],
)
def test_frames_of_installed_libraries_are_read(library, frame_of):
    assert split_pairs(frame_of(pytest.importorskip(library))) == (["a"], ["c"])
