"""Screenshots for the README: pages of the studio with the models of studio_models.py, in light and dark mode.

    python recipes/pictures.py                        all of them, into docs/pictures; what `make pictures` runs
    python recipes/pictures.py attention -o drafts    one of them, elsewhere

Missing models are trained first. A picture is the relevant part of the page at a width of 1,400 pixels, taken with the
system's Chromium and fonts.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from commands import browser_program
from playwright.sync_api import sync_playwright
from running import run_main
from studio_models import RECIPES, train

from maskwright.core import storage
from maskwright.core.errors import RunError

if TYPE_CHECKING:
    from playwright.sync_api import Page

ROOT = Path(__file__).resolve().parents[1]
WIDTH, MARGIN = 1400, 20
LARGEST_BYTES = 150_000


@dataclass(frozen=True)
class Shot:
    """page: of the studio; state: its address after the #; parts: selectors of the elements in the picture."""

    page: str
    state: dict[str, str]
    parts: tuple[str, ...]


FOUND = "main section:nth-of-type(2)"  # what a page makes of the text, below the form
SHOTS = {
    "attention": Shot(
        "attention",
        {
            "model": "translator",
            "kind": "cross",
            "layer": "2",
            "head": "2",
            "text": "Yesterday the old fisher sold the red boat at the lake.",
        },
        (f"{FOUND} h2", f"{FOUND} .fields", "figure svg", "figure:nth-of-type(2) svg"),
    ),
    "tags": Shot(
        "tag",
        {"text": "Konstanze Weller met Ulf Brandsen in Tarvinstad in May 1998."},
        (f"{FOUND} h2", ".reading", "[aria-label='Every word']"),
    ),
    "tokens": Shot(
        "tokens",
        {},
        (".result:has(> .wide > .matrix) h3", "table.matrix"),
    ),
    "curves": Shot("runs", {"runs": "reader,writer,translator,answers"}, ("figure",)),
}


def main() -> None:
    """Take the pictures that are asked for."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("names", nargs="*", metavar="PICTURE", help="which pictures; all without")
    options.add_argument("-o", "--output", type=Path, default=ROOT / "docs" / "pictures")
    options.add_argument("--models", type=Path, default=ROOT / "build" / "studio-models", help="folder of the runs")
    chosen = options.parse_args()
    if unknown := sorted(set(chosen.names) - set(SHOTS)):
        options.error(f"no picture is called {', '.join(unknown)}; there are {', '.join(SHOTS)}")
    program = browser_program()
    models = [train(chosen.models, name) for name in RECIPES]
    chosen.output.mkdir(parents=True, exist_ok=True)
    with studio(models, chosen.models) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        for scheme in ("light", "dark"):
            page = browser.new_page(viewport={"width": WIDTH, "height": 900}, color_scheme=scheme)
            page.goto(address)
            for name in chosen.names or SHOTS:
                take(page, SHOTS[name], chosen.output / f"{name}-{scheme}.png")
        browser.close()


@contextmanager
def studio(models: Sequence[Path], runs: Path) -> Iterator[str]:
    """The first address of a studio of these models, which runs until the block ends."""
    command = [sys.executable, "-m", "maskwright", "studio", *map(str, models), "--runs", str(runs)]
    command += ["--port", "0", "--no-browser", "--json", "--device", "cpu", "--precision", "fp32", "--quiet"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
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
    picture = page.screenshot(full_page=True, clip=clip)
    if len(picture) > LARGEST_BYTES:
        raise RunError(f"{path.name} would have {len(picture):,} bytes, more than {LARGEST_BYTES:,}: show less of it.")
    storage.write_bytes(path, picture)
    print(f"{path}  {len(picture):,} bytes")


if __name__ == "__main__":
    run_main(main)
