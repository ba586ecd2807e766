"""Pictures as files of their own: .svg as they are drawn, .png by resvg."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

from ...core import storage
from ...core.errors import ConfigError, MissingExtraError

ENDINGS = (".svg", ".png", ".html")
ZOOM = 2  # pixels of a PNG for each unit of the drawing
MOST_PIXELS = 1 << 26  # beyond them a drawing is not enlarged


def check_picture(path: Path) -> None:
    """Raise ConfigError for an ending that is no picture, MissingExtraError for a .png without what draws it."""
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise ConfigError(f"{path} has an unknown ending: the picture is written as .svg, .png or .html.")
    if ending == ".png" and importlib.util.find_spec("resvg_py") is None:
        raise MissingExtraError("Writing PNG", "plot")


def write_picture(path: Path, svg: str) -> None:
    """Write a drawing, by the ending of `path`: .svg, or .png in the system's fonts."""
    if path.suffix.lower() == ".png":
        storage.write_bytes(path, to_png(svg))
    else:
        storage.write_text(path, svg + "\n")


def to_png(svg: str) -> bytes:
    """The pixels of a drawing with a viewBox, `ZOOM` for each of its units."""
    from resvg_py import svg_to_bytes

    sizes = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)
    assert sizes is not None
    pixels = ZOOM**2 * float(sizes[1]) * float(sizes[2])
    font = "DejaVu Sans"  # system-ui, which the drawings name first, is a browser's name
    return bytes(
        svg_to_bytes(
            svg_string=svg,
            background="#ffffff",
            zoom=ZOOM if pixels <= MOST_PIXELS else 1,
            font_family=font,
            sans_serif_family=font,
        )
    )
