"""The complexity table: powers by hand, operations by their formulas, layers that are what they are called."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from maskwright.core.errors import ConfigError
from maskwright.nn.attention import self_attention
from maskwright.speed import complexity
from maskwright.speed.complexity import KINDS, headline, measure, power, table, write_complexity


@pytest.mark.parametrize("b", [0.5, 1, 2, 3])
def test_a_power_is_fitted_exactly(b: float):
    sizes = [2, 5, 11, 40]
    assert power(sizes, [3.7 * size**b for size in sizes]) == pytest.approx(b)


def test_operations_have_the_published_powers_of_the_length_and_the_width():
    for kind in KINDS:
        costs = [kind.flops(n, 64, 3, 32) for n in (128, 256, 512)]
        assert power([128, 256, 512], costs) == pytest.approx(kind.power), kind.name
    widths = {kind.name: power([32, 64, 128], [kind.flops(512, d, 3, 32) for d in (32, 64, 128)]) for kind in KINDS}
    assert widths == pytest.approx({"self-attention": 1, "recurrent": 2, "convolutional": 2, "restricted attention": 1})


def test_the_layers_are_what_they_are_called():
    x = torch.randn(12, 8, generator=torch.Generator().manual_seed(0))
    whole = complexity._layer("self-attention", 8, 3, 4, "cpu")(x)
    torch.testing.assert_close(whole, F.scaled_dot_product_attention(x[None], x[None], x[None])[0])
    torch.testing.assert_close(whole, self_attention(x * 8**-0.25)[:, :] * 8**0.25)
    blocks = complexity._layer("restricted attention", 8, 3, 4, "cpu")(x)
    torch.testing.assert_close(blocks[4:8], complexity._layer("self-attention", 8, 3, 4, "cpu")(x[4:8]))
    for name, reach in (("convolutional", {4, 5, 6}), ("recurrent", set(range(5, 12)))):
        layer = complexity._layer(name, 8, 3, 4, "cpu")
        changed = x.clone()
        changed[5] += 1
        differs = (layer(x) != layer(changed)).any(dim=1)
        assert set(differs.nonzero().flatten().tolist()) == reach


def test_full_attention_measured_here_grows_faster_than_restricted():
    found = {one.kind.name: one for one in measure([64, 512, 1024, 2048], width=32, window=64)}
    assert found["self-attention"].fitted > found["restricted attention"].fitted
    assert all(seconds > 0 for one in found.values() for seconds in one.seconds)


def test_a_page_and_a_table_show_every_layer(tmp_path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(complexity, "_time", lambda run: float(len(run())))
    found = measure([64, 128, 256], 8)
    assert [one.fitted for one in found] == pytest.approx([1.0] * 4)
    write_complexity(tmp_path / "c.html", [64, 128, 256], 8, found)
    columns, rows = table([64, 128, 256], found)
    assert len(rows) == 4 and all(len(row) == len(columns) for row in rows)
    page = (tmp_path / "c.html").read_text()
    assert all(kind.name in page for kind in KINDS) and "O(n^2 d)" in page
    assert "self-attention 1.00 (published 2)" in headline(found)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"lengths": [64, 128]}, "at least three"),
        ({"lengths": [128, 64, 256]}, "must increase"),
        ({"lengths": [64, 128, 256], "filter_width": 4}, "odd"),
        ({"lengths": [64, 128, 256], "filter_width": 65}, "at most the shortest length, 64"),
        ({"lengths": [64, 128, 64_000_000]}, "elements"),
        ({"lengths": [64, 128, 256], "width": 10**8}, "elements"),
        ({"lengths": [64, 100, 256]}, "multiple"),
    ],
)
def test_what_cannot_be_measured_is_refused(settings, said: str):
    with pytest.raises(ConfigError, match=said):
        measure(**settings)
