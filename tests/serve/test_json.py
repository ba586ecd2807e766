"""Long results are written in parts; the JSON is the same."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("orjson", reason="the extra 'serve' is not installed")

from maskwright.serve.dialects import routing

VALUES = st.recursive(
    st.none() | st.integers(-5, 5) | st.text(max_size=3) | st.just(np.arange(12, dtype=np.float32).reshape(4, 3)),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=2), inner, max_size=4),
    max_leaves=40,
)


def plain(value):
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, list) else value


@given(VALUES, st.integers(1, 20))
def test_parts_are_the_whole(value, most):
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(routing, "PART_VALUES", most)
        assert json.loads(b"".join(routing.json_parts(value))) == plain(value)


@pytest.mark.parametrize(
    "value", [np.zeros((3000, 384), np.float32), [np.zeros((100, 384), np.float32)] * 50, list(range(200_000))]
)
def test_no_part_takes_long(value):
    parts = list(routing.json_parts(value))
    assert len(parts) > 3 and max(map(len, parts)) < 8 * routing.PART_VALUES
    assert json.loads(b"".join(parts)) == plain(value)
