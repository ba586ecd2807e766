"""Reading what a page of the studio shows: tables under their headings, files that it saves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

ROWS = "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"


def cells(page: Page, title: str, number: int = 0) -> list[list[str]]:
    """The rows of the table under a heading, the first where there are several."""
    box = page.locator(f'[role="region"][aria-label="{title}"]').nth(number)
    return box.locator("tbody tr").evaluate_all(ROWS)


def saved(page: Page, label: str) -> bytes:
    """What the button with this label hands over."""
    with page.expect_download() as found:
        page.get_by_role("button", name=label, exact=True).click()
    return Path(found.value.path()).read_bytes()


def settled(page: Page) -> None:
    """Wait until nothing on the page is being computed."""
    page.wait_for_timeout(50)  # what was typed has reached the page
    page.wait_for_function("() => !document.querySelector('.busy')")
