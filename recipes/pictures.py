"""Screenshots for the documentation: pages of the studio with the built-in models, in light and dark mode.

    python recipes/pictures.py                  all of them, into docs/pictures; what `make pictures` runs
    python recipes/pictures.py why -o drafts    one of them, elsewhere

A picture is the relevant part of the page, taken with the system's Chromium and fonts.
"""

from __future__ import annotations

import argparse
import json
import struct
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from common import browser_program, run_main
from playwright.sync_api import sync_playwright

from maskwright.core import storage
from maskwright.core.errors import RunError

if TYPE_CHECKING:
    from playwright.sync_api import Page

ROOT = Path(__file__).resolve().parents[1]
MARGIN = 10
LARGEST_BYTES = 150_000
SENTENCE = "The animal didn't cross the street because it was too tired."


@dataclass(frozen=True)
class Shot:
    """page: of the studio; state: its address after the #; parts: selectors of what is in the picture; width of the
    window.
    """

    page: str
    state: dict[str, str]
    parts: tuple[str, ...]
    width: int = 1400


SHOTS = {
    "why": Shot(
        "classify",
        {
            "model": "english-spam",
            "text": "Congratulations! You have won a free prize, call now to claim your cash.",
            "why": "yes",
        },
        (".finding", ".reading", "figure:has-text('Contribution of each word')", "figure:has-text('without the most')"),
    ),
    "heads": Shot("inspect", {"model": "english", "text": SENTENCE}, ("[role=tablist]", ".thumbs", ".signs"), 1250),
    "projector": Shot(
        "projector", {"model": "english", "at": "12"}, ("section:nth-of-type(2) p.reading", ".cloud-box"), 1250
    ),
    "data": Shot(
        "data",
        {"model": "english-entailment"},
        ("section:nth-of-type(2) h2", "section:nth-of-type(2) .columns"),
        1250,
    ),
    "model": Shot(
        "model", {"model": "english-spam"}, ("section:nth-of-type(3) h2", "section:nth-of-type(3) figure"), 1250
    ),
}


def main() -> None:
    """Take the pictures that are asked for."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("names", nargs="*", metavar="PICTURE", help="which pictures; all without")
    options.add_argument("-o", "--output", type=Path, default=ROOT / "docs" / "pictures")
    chosen = options.parse_args()
    if unknown := sorted(set(chosen.names) - set(SHOTS)):
        options.error(f"no picture is called {', '.join(unknown)}; there are {', '.join(SHOTS)}")
    program = browser_program()
    chosen.output.mkdir(parents=True, exist_ok=True)
    with studio() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()  # one for both schemes: the address works once
        page.goto(address)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            for name in chosen.names or SHOTS:
                take(page, SHOTS[name], chosen.output / f"{name}-{scheme}.png")
        browser.close()


@contextmanager
def studio() -> Iterator[str]:
    """The first address of a studio of the built-in models, which runs until the block ends."""
    command = [sys.executable, "-m", "maskwright", "studio", "--port", "0", "--no-browser", "--json", "--quiet"]
    command += ["--device", "cpu", "--precision", "fp32", "--runs"]
    with (
        tempfile.TemporaryDirectory() as runs,
        subprocess.Popen([*command, runs], stdout=subprocess.PIPE, text=True) as process,
    ):
        try:
            line = process.stdout.readline() if process.stdout else ""
            if not line:
                raise RunError("The studio did not start: see the message above.")
            yield str(json.loads(line)["address"])
        finally:
            process.terminate()


def take(page: Page, shot: Shot, path: Path) -> None:
    """Open the page as the shot says, wait until it is drawn, and write the part that matters."""
    origin = page.evaluate("location.origin")
    page.goto("about:blank")  # a change only after the # would not load the page
    page.set_viewport_size({"width": shot.width, "height": 900})
    page.goto(f"{origin}/{shot.page}#{urlencode(shot.state, quote_via=quote)}")
    page.wait_for_selector("body[data-ready]")
    page.wait_for_selector(shot.parts[0])
    page.wait_for_timeout(500)  # what the page asks for has begun
    page.wait_for_function("() => !document.querySelector('.busy')")
    boxes = [page.locator(part).first.bounding_box() for part in shot.parts]
    left, top = (min(box[edge] for box in boxes if box) - MARGIN for edge in ("x", "y"))
    right, bottom = (
        max(box[edge] + box[size] for box in boxes if box) + MARGIN for edge, size in (("x", "width"), ("y", "height"))
    )
    clip = {"x": left, "y": top, "width": right - left, "height": bottom - top}
    picture = compressed(page.screenshot(full_page=True, clip=clip))
    if len(picture) > LARGEST_BYTES:
        raise RunError(f"{path.name} would have {len(picture):,} bytes, more than {LARGEST_BYTES:,}: show less of it.")
    storage.write_bytes(path, picture)
    print(f"{path}  {len(picture):,} bytes")


def compressed(png: bytes) -> bytes:
    """The same PNG, its data compressed as much as zlib can: the browser prefers speed."""
    start, data, rest = 8, b"", []
    while start < len(png):
        size, kind = struct.unpack(">I4s", png[start : start + 8])
        if kind == b"IDAT":
            data += png[start + 8 : start + 8 + size]
        else:
            rest.append(png[start : start + 12 + size])
        start += 12 + size
    data = zlib.compress(zlib.decompress(data), 9)
    chunk = struct.pack(">I", len(data)) + b"IDAT" + data + struct.pack(">I", zlib.crc32(b"IDAT" + data))
    return b"".join([png[:8], *rest[:-1], chunk, rest[-1]])


if __name__ == "__main__":
    run_main(main)
