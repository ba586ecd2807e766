"""Frames of other libraries as texts and pairs: their columns are read by name."""

from __future__ import annotations

import pytest

from maskwright.core.errors import InputError
from maskwright.text.readers.inputs import split_pairs, texts_of_table


class PolarsFrame:
    """The part of a polars frame that is read: `columns`, and columns with `to_list`."""

    def __init__(self, **columns):
        self.columns, self.own = list(columns), columns

    def __getitem__(self, name):
        return PolarsColumn(self.own[name])


class PolarsColumn:
    def __init__(self, values):
        self.values = values

    def to_list(self):
        return self.values


class ArrowTable(PolarsFrame):
    """The part of a pyarrow table that is read: `column_names`, and columns with `to_pylist`; `columns` are arrays."""

    def __init__(self, **columns):
        super().__init__(**columns)
        self.column_names, self.columns = self.columns, list(columns.values())

    def __getitem__(self, name):
        return ArrowColumn(self.own[name])


class ArrowColumn:
    def __init__(self, values):
        self.values = values

    def to_pylist(self):
        return self.values


@pytest.mark.parametrize("frame", [PolarsFrame, ArrowTable])
def test_columns_are_read_by_name(frame):
    assert split_pairs(frame(any_name=["a", "b"])) == (["a", "b"], [None, None])
    assert split_pairs(frame(text_pair=["c", "d"], text=["a", "b"])) == (["a", "b"], ["c", "d"])
    assert texts_of_table(frame(x=["a"], y=["b"], z=["c"]), ("z", "x")) == [("c", "a")]
    with pytest.raises(InputError, match="the columns 'x', 'y' is neither texts nor text pairs"):
        split_pairs(frame(x=["a"], y=["b"]))
    with pytest.raises(InputError, match="no column 'reply'"):
        texts_of_table(frame(x=["a"], y=["b"]), ("x", "reply"))


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
