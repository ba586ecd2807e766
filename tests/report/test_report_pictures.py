"""Pictures in files of their own, as SVG and as PNG."""

from __future__ import annotations

import math
import struct
import zlib
from pathlib import Path

import pytest

from maskwright.core.errors import ConfigError, MissingExtraError
from maskwright.report import pictures
from maskwright.report.charts.grids import heat_map
from maskwright.report.pictures import check_picture, to_png, write_picture

SVG = str(heat_map(["a", "b"], ["one", "two"], [[1.0, 0.0], [0.5, 1.0]], "Two <texts> & a half"))
SIZES = SVG.partition('viewBox="0 0 ')[2].partition('"')[0].split()


def shape_of(png: bytes) -> tuple[int, int]:
    """Height and width of a PNG whose data are whole."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    width, height, depth, kind = struct.unpack(">IIBB", png[16:26])
    assert (depth, kind) == (8, 6)
    data, place = b"", 8
    while place < len(png):
        size, name = struct.unpack(">I4s", png[place : place + 8])
        data += png[place + 8 : place + 8 + size] if name == b"IDAT" else b""
        place += size + 12
    assert len(zlib.decompress(data)) == height * (4 * width + 1)
    return height, width


def test_a_png_is_twice_as_large_as_the_drawing_and_holds_it(tmp_path: Path):
    pytest.importorskip("resvg_py", reason="resvg-py is not installed")
    write_picture(tmp_path / "p.png", SVG)
    height, width = shape_of((tmp_path / "p.png").read_bytes())
    assert [width, height] == [math.ceil(pictures.ZOOM * float(size)) for size in SIZES]
    empty = SVG[: SVG.index(">") + 1] + "</svg>"
    assert to_png(SVG) != to_png(empty)


def test_a_huge_drawing_is_not_enlarged(monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("resvg_py", reason="resvg-py is not installed")
    monkeypatch.setattr(pictures, "MOST_PIXELS", 100)
    assert shape_of(to_png(SVG))[1] == math.ceil(float(SIZES[0]))


def test_an_svg_is_written_as_it_is(tmp_path: Path):
    write_picture(tmp_path / "p.svg", SVG)
    assert (tmp_path / "p.svg").read_text() == SVG + "\n"


def test_other_endings_and_a_missing_extra_are_said_before_the_work(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(ConfigError, match=r"p\.gif has an unknown ending: .*\.svg, \.png or \.html"):
        check_picture(Path("p.gif"))
    monkeypatch.setattr(pictures.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match="plot"):
        check_picture(Path("p.png"))
    check_picture(Path("p.svg"))
