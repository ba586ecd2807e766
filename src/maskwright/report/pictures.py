"""Writes charts as image files: .svg directly, .png with resvg."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

from ..core import storage
from ..core.errors import ConfigError, MissingExtraError

ENDINGS = (".svg", ".png", ".html")
ZOOM = 2  # pixels of a PNG for each unit of the drawing
MOST_PIXELS = 1 << 26  # larger images are not enlarged


def check_picture(path: Path) -> None:
    """Raises ConfigError for an unknown file extension, MissingExtraError for a .png without resvg."""
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise ConfigError(f"{path} has an unknown ending: images are written as .svg, .png or .html.")
    if ending == ".png" and importlib.util.find_spec("resvg_py") is None:
        raise MissingExtraError("Writing PNG", "plot")


def write_picture(path: Path, svg: str) -> None:
    """Writes an image in the format given by the extension of `path`: .svg, or .png with system fonts."""
    if path.suffix.lower() == ".png":
        storage.write_bytes(path, to_png(svg))
    else:
        storage.write_text(path, svg + "\n")


def to_png(svg: str) -> bytes:
    """Renders an SVG with a viewBox as PNG, `ZOOM` pixels per unit."""
    from resvg_py import svg_to_bytes

    sizes = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)
    assert sizes is not None
    pixels = ZOOM**2 * float(sizes[1]) * float(sizes[2])
    font = "DejaVu Sans"  # system-ui, the first font of the images, only exists in browsers
    return bytes(
        svg_to_bytes(
            svg_string=svg,
            background="#ffffff",
            zoom=ZOOM if pixels <= MOST_PIXELS else 1,
            font_family=font,
            sans_serif_family=font,
        )
    )
