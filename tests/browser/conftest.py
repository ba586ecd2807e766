"""A headless Chromium of the system for tests of pages: no network, and every complaint is kept.

Without playwright or a Chromium the tests are skipped, except where CI=true says that they must run.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

QUICK = "test_report_page.py"  # runs with the tests that are not slow
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    folder = Path(__file__).parent
    for item in items:
        if item.path.parent == folder and item.path.name != QUICK:
            item.add_marker(pytest.mark.slow)


@dataclass
class Opened:
    """A page in the browser, with its other requests and its errors."""

    page: Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def ask(self, script: str) -> Any:
        return self.page.evaluate(script)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _give_up("playwright is not installed")
    program = next((found for name in NAMES if (found := shutil.which(name))), None)
    if program is None:
        _give_up(f"no Chromium on this machine (looked for {', '.join(NAMES)})")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        yield running
        running.close()


@contextmanager
def _pages(browser: Browser) -> Iterator[Callable[..., Opened]]:
    """Opens empty pages, which may ask only for addresses that `allows` accepts, and closes them at the end."""
    contexts = []

    def new(allows: Callable[[str], bool], width: int, scheme: Literal["light", "dark"], height: int) -> Opened:
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        contexts.append(context)
        opened = Opened(context.new_page())

        def answer(route: Any) -> None:
            if allows(route.request.url):
                route.continue_()
            else:
                opened.requests.append(route.request.url)
                route.abort()

        opened.page.route("**/*", answer)
        opened.page.on("console", lambda message: opened.complaints.append(message.text))
        opened.page.on("pageerror", lambda error: opened.complaints.append(str(error)))
        return opened

    yield new
    for context in contexts:
        context.close()


@pytest.fixture
def open_page(browser: Browser, tmp_path: Path) -> Iterator[Callable[..., Opened]]:
    """Opens HTML text as a file: `open_page(html, width=375, scheme="dark")`. All other addresses are blocked."""
    with _pages(browser) as new:

        def opener(html: str, width: int = 1400, scheme: str = "light", height: int = 900) -> Opened:
            path = tmp_path / f"page-{len(list(tmp_path.iterdir()))}.html"
            path.write_text(html, encoding="utf-8")
            opened = new(path.as_uri().__eq__, width, scheme, height)
            opened.page.goto(path.as_uri())
            return opened

        yield opener


@pytest.fixture
def visit(browser: Browser) -> Iterator[Callable[..., Opened]]:
    """Opens a page of a running studio: `visit(served, "/tokens#text=a", width=375, scheme="dark")`, and waits until it
    is built. Requests to other addresses are blocked and stored in `requests`.
    """
    with _pages(browser) as new:

        def opener(served: Any, path: str, width: int = 1400, scheme: str = "light", height: int = 900) -> Opened:
            opened = new(lambda url: url.startswith(("blob:", f"{served.origin}/")), width, scheme, height)
            opened.page.goto(served.first_address)
            opened.page.goto(served.origin + path)
            opened.page.wait_for_selector("body[data-ready]")
            return opened

        yield opener


def _give_up(reason: str) -> None:
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI must test pages, but {reason}.")
    pytest.skip(reason)
