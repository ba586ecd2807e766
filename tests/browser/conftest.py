"""A headless Chromium of the system for tests of pages: no network, and every complaint is kept.

Without playwright or a Chromium the tests are skipped, except where CI=true says that they must run.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    """Mark the tests of this folder as slow."""
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
        """The value of a JavaScript expression or function in the page."""
        return self.page.evaluate(script)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One browser for all tests of a session."""
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


@pytest.fixture
def open_page(browser: Browser, tmp_path: Path) -> Iterator[Callable[..., Opened]]:
    """Opens HTML text as a file: `open_page(html, width=375, scheme="dark")`. All other addresses are blocked."""
    contexts = []

    def opener(html: str, width: int = 1400, scheme: str = "light", height: int = 900) -> Opened:
        path = tmp_path / f"page-{len(contexts)}.html"
        path.write_text(html, encoding="utf-8")
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)  # type: ignore[arg-type]
        contexts.append(context)
        opened = Opened(context.new_page())
        page = opened.page

        def answer(route: Any) -> None:
            if route.request.url == path.as_uri():
                route.continue_()
            else:
                opened.requests.append(route.request.url)
                route.abort()

        page.route("**/*", answer)
        page.on("console", lambda message: opened.complaints.append(message.text))
        page.on("pageerror", lambda error: opened.complaints.append(str(error)))
        page.goto(path.as_uri())
        return opened

    yield opener
    for context in contexts:
        context.close()


@pytest.fixture
def visit(browser: Browser) -> Iterator[Callable[..., Opened]]:
    """Opens a page of a running studio: `visit(served, "/tokens#text=a", width=375, scheme="dark")`, and waits until it
    is built. Requests to other addresses are blocked and stored in `requests`.
    """
    contexts = []

    def opener(served: Any, path: str, width: int = 1400, scheme: str = "light", height: int = 900) -> Opened:
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)  # type: ignore[arg-type]
        contexts.append(context)
        opened = Opened(context.new_page())
        page = opened.page

        def answer(route: Any) -> None:
            if route.request.url.startswith(("blob:", f"{served.origin}/")):
                route.continue_()
            else:
                opened.requests.append(route.request.url)
                route.abort()

        page.route("**/*", answer)
        page.on("console", lambda message: opened.complaints.append(message.text))
        page.on("pageerror", lambda error: opened.complaints.append(str(error)))
        page.goto(served.first_address)
        page.goto(served.origin + path)
        page.wait_for_selector("body[data-ready]")
        return opened

    yield opener
    for context in contexts:
        context.close()


def _give_up(reason: str) -> None:
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI must test pages, but {reason}.")
    pytest.skip(reason)
